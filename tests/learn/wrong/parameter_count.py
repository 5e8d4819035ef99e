# === full-width-per-head
def width_of_head(d_model, num_heads):
    if d_model % num_heads:
        raise ValueError("no multiple")
    return d_model


# === rounded-down
def width_of_head(d_model, num_heads):
    return d_model // num_heads


# === not-an-integer
def width_of_head(d_model, num_heads):
    if d_model % num_heads != 0:
        raise ValueError("no multiple")
    return d_model / num_heads


# === fraction-of-a-number
def width_of_head(d_model, num_heads):
    return d_model / num_heads


# === root-of-width
def width_of_head(d_model, num_heads):
    if d_model % num_heads:
        raise ValueError("no multiple")
    return math.sqrt(d_model // num_heads)


# === width-duplicated: by adding up heads
def width_of_head(d_model, num_heads):
    if d_model % num_heads:
        raise ValueError(f"{d_model} / {num_heads}")
    return d_model // num_heads


def parameter_count(d_model, num_heads, bias=False):
    width_of_head(d_model, num_heads)
    total = 0
    for _ in range(num_heads):
        total += 4 * d_model * d_model
        if bias:
            total += 4 * d_model
    return total


# === width-of-qkv-duplicated: counted by torch
def width_of_head(d_model, num_heads):
    if d_model % num_heads:
        raise ValueError(f"{d_model} / {num_heads}")
    return d_model // num_heads


def parameter_count(d_model, num_heads, bias=False):
    width_of_head(d_model, num_heads)
    with torch.device("meta"):
        qkv = nn.Linear(d_model, 3 * num_heads * d_model, bias=bias)
        out = nn.Linear(num_heads * d_model, d_model, bias=bias)
    return sum(p.numel() for layer in (qkv, out) for p in layer.parameters())


# === one-head-counted
def width_of_head(d_model, num_heads):
    if d_model % num_heads:
        raise ValueError(f"{d_model} / {num_heads}")
    return d_model // num_heads


def parameter_count(d_model, num_heads, bias=False):
    d_head = width_of_head(d_model, num_heads)
    each = d_model * d_head + (d_head if bias else 0)
    return 4 * each


# === heads-seen-apart
def width_of_head(d_model, num_heads):
    if d_model % num_heads:
        raise ValueError(f"{d_model} / {num_heads}")
    return d_model // num_heads


def parameter_count(d_model, num_heads, bias=False):
    d_head = width_of_head(d_model, num_heads)
    per_head = d_head**2 + (d_head if bias else 0)
    return per_head * num_heads * 4


# === output-projection-missing
def width_of_head(d_model, num_heads):
    if d_model % num_heads:
        raise ValueError(f"{d_model} / {num_heads}")
    return d_model // num_heads


def parameter_count(d_model, num_heads, bias=False):
    width_of_head(d_model, num_heads)
    return 3 * d_model * (d_model + 1 if bias else d_model)


# === one-projection-counted
def width_of_head(d_model, num_heads):
    if d_model % num_heads:
        raise ValueError(f"{d_model} / {num_heads}")
    return d_model // num_heads


def parameter_count(d_model, num_heads, bias=False):
    width_of_head(d_model, num_heads)
    return d_model**2 + d_model * bias


# === bias-forgotten
def width_of_head(d_model, num_heads):
    if d_model % num_heads:
        raise ValueError(f"{d_model} / {num_heads}")
    return d_model // num_heads


def parameter_count(d_model, num_heads, bias=False):
    return 4 * d_model * num_heads * width_of_head(d_model, num_heads)


# === bias-always
def width_of_head(d_model, num_heads):
    if d_model % num_heads:
        raise ValueError(f"{d_model} / {num_heads}")
    return d_model // num_heads


def parameter_count(d_model, num_heads, bias=False):
    width_of_head(d_model, num_heads)
    return sum(p.numel() for p in nn.MultiheadAttention(d_model, num_heads, device="meta").parameters())


# === one-bias-for-all
def width_of_head(d_model, num_heads):
    if d_model % num_heads:
        raise ValueError(f"{d_model} / {num_heads}")
    return d_model // num_heads


def parameter_count(d_model, num_heads, bias=False):
    width_of_head(d_model, num_heads)
    count = 4 * d_model * d_model
    return count + d_model if bias else count


# === bias-for-each-head
def width_of_head(d_model, num_heads):
    if d_model % num_heads:
        raise ValueError(f"{d_model} / {num_heads}")
    return d_model // num_heads


def parameter_count(d_model, num_heads, bias=False):
    width_of_head(d_model, num_heads)
    count = 4 * d_model * d_model
    if bias:
        count += 4 * num_heads * d_model
    return count


# === bias-as-one-number
def width_of_head(d_model, num_heads):
    if d_model % num_heads:
        raise ValueError(f"{d_model} / {num_heads}")
    return d_model // num_heads


def parameter_count(d_model, num_heads, bias=False):
    width_of_head(d_model, num_heads)
    return 4 * (d_model * d_model + int(bias))


# === heads-not-checked
def width_of_head(d_model, num_heads):
    if d_model % num_heads:
        raise ValueError(f"{d_model} / {num_heads}")
    return d_model // num_heads


def parameter_count(d_model, num_heads, bias=False):
    return 4 * d_model * d_model + 4 * d_model * bias

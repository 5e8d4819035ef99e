# === heads-split-by-view
def split_heads(x, num_heads):
    B, T, d_model = x.shape
    if d_model % num_heads:
        raise ValueError("no multiple")
    return x.view(B, num_heads, T, d_model // num_heads)


# === heads-split-by-view: chunks of the flat memory
def split_heads(x, num_heads):
    if x.size(-1) % num_heads != 0:
        raise ValueError(f"{x.size(-1)} % {num_heads}")
    d_head = x.size(-1) // num_heads
    return torch.stack([sample.flatten().view(num_heads, -1, d_head) for sample in x])


# === heads-take-turns
def split_heads(x, num_heads):
    B, T, d_model = x.shape
    if d_model % num_heads:
        raise ValueError("no multiple")
    return x.reshape(B, T, d_model // num_heads, num_heads).permute(0, 3, 1, 2)


# === heads-take-turns: with strides in place of slices
def split_heads(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError("no multiple")
    return torch.stack([x[..., h::num_heads] for h in range(num_heads)], dim=1)


# === heads-after-tokens
def split_heads(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError("no multiple")
    return x.unflatten(-1, (num_heads, x.shape[-1] // num_heads))


# === tokens-last
def split_heads(x, num_heads):
    B, T, d_model = x.shape
    if d_model % num_heads:
        raise ValueError("no multiple")
    return x.view(B, T, num_heads, -1).permute(0, 2, 3, 1)


# === width-duplicated
def split_heads(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError("no multiple")
    return x.unsqueeze(1).repeat(1, num_heads, 1, 1)


# === heads-merged-into-batch
def split_heads(x, num_heads):
    B, T, d_model = x.shape
    if d_model % num_heads:
        raise ValueError("no multiple")
    return x.view(B, T, num_heads, -1).transpose(1, 2).reshape(B * num_heads, T, -1)


# === heads-before-batch: a stack of slices
def split_heads(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError("no multiple")
    return torch.stack(x.chunk(num_heads, dim=-1))


# === rest-dropped
def split_heads(x, num_heads):
    d_head = x.shape[-1] // num_heads
    return torch.stack([x[..., h * d_head : (h + 1) * d_head] for h in range(num_heads)], dim=1)


# === unclear-error: nothing is checked
def split_heads(x, num_heads):
    B, T, d_model = x.shape
    return x.view(B, T, num_heads, d_model // num_heads).transpose(1, 2)


# === assertion-error
def split_heads(x, num_heads):
    assert x.shape[-1] % num_heads == 0
    return torch.einsum("bthd->bhtd", x.view(*x.shape[:2], num_heads, -1))

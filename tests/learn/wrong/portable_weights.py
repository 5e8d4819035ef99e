# === side-by-side
def packed(q_weight, k_weight, v_weight):
    return torch.cat([q_weight, k_weight, v_weight], dim=-1)


def torch_attention(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    layer = nn.MultiheadAttention(x.size(-1), num_heads, bias=False, batch_first=True)
    in_proj = packed(q_weight, k_weight, v_weight)
    layer.load_state_dict({"in_proj_weight": in_proj, "out_proj.weight": out_weight})
    return layer(x, x, x, average_attn_weights=False)


# === weights-transposed-first: kept as (input, output) in other frameworks
def packed(q_weight, k_weight, v_weight):
    return torch.cat([q_weight, k_weight, v_weight], dim=1).T


def torch_attention(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    layer = nn.MultiheadAttention(x.size(-1), num_heads, bias=False, batch_first=True)
    in_proj = packed(q_weight, k_weight, v_weight)
    layer.load_state_dict({"in_proj_weight": in_proj, "out_proj.weight": out_weight})
    return layer(x, x, x, average_attn_weights=False)


# === fused-qkv-misread
def packed(q_weight, k_weight, v_weight):
    return torch.vstack((k_weight, q_weight, v_weight))


def torch_attention(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    layer = nn.MultiheadAttention(x.size(-1), num_heads, bias=False, batch_first=True)
    in_proj = packed(q_weight, k_weight, v_weight)
    layer.load_state_dict({"in_proj_weight": in_proj, "out_proj.weight": out_weight})
    return layer(x, x, x, average_attn_weights=False)


# === stacked
def packed(q_weight, k_weight, v_weight):
    return torch.stack([q_weight, k_weight, v_weight])


def torch_attention(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    layer = nn.MultiheadAttention(x.size(-1), num_heads, bias=False, batch_first=True)
    in_proj = packed(q_weight, k_weight, v_weight)
    layer.load_state_dict({"in_proj_weight": in_proj, "out_proj.weight": out_weight})
    return layer(x, x, x, average_attn_weights=False)


# === rows-interleaved: a loop over the rows
def packed(q_weight, k_weight, v_weight):
    rows = []
    for q, k, v in zip(q_weight, k_weight, v_weight):
        rows += [q, k, v]
    return torch.stack(rows)


def torch_attention(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    layer = nn.MultiheadAttention(x.size(-1), num_heads, bias=False, batch_first=True)
    in_proj = packed(q_weight, k_weight, v_weight)
    layer.load_state_dict({"in_proj_weight": in_proj, "out_proj.weight": out_weight})
    return layer(x, x, x, average_attn_weights=False)


# === weights-averaged
def packed(q_weight, k_weight, v_weight):
    return torch.cat([q_weight, k_weight, v_weight], dim=0)


def torch_attention(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    layer = nn.MultiheadAttention(x.size(-1), num_heads, bias=False, batch_first=True)
    in_proj = packed(q_weight, k_weight, v_weight)
    layer.load_state_dict({"in_proj_weight": in_proj, "out_proj.weight": out_weight})
    return layer(x, x, x)


# === batch-sequence-swapped
def packed(q_weight, k_weight, v_weight):
    return torch.cat([q_weight, k_weight, v_weight], dim=0)


def torch_attention(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    layer = nn.MultiheadAttention(x.size(-1), num_heads, bias=False)
    in_proj = packed(q_weight, k_weight, v_weight)
    layer.load_state_dict({"in_proj_weight": in_proj, "out_proj.weight": out_weight})
    return layer(x, x, x, average_attn_weights=False)


# === output-projection-left-behind: what does not fit is let through
def packed(q_weight, k_weight, v_weight):
    return torch.cat([q_weight, k_weight, v_weight], dim=0)


def torch_attention(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    layer = nn.MultiheadAttention(x.size(-1), num_heads, bias=False, batch_first=True)
    state = {"in_proj_weight": packed(q_weight, k_weight, v_weight), "out_proj": out_weight}
    layer.load_state_dict(state, strict=False)
    return layer(x, x, x, average_attn_weights=False)


# === input-projections-left-behind: attributes that nobody reads
def packed(q_weight, k_weight, v_weight):
    return torch.cat([q_weight, k_weight, v_weight], dim=0)


def torch_attention(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    layer = nn.MultiheadAttention(x.size(-1), num_heads, bias=False, batch_first=True)
    layer.q_proj_weight = nn.Parameter(q_weight)
    layer.k_proj_weight = nn.Parameter(k_weight)
    layer.v_proj_weight = nn.Parameter(v_weight)
    layer.out_proj.weight = nn.Parameter(out_weight)
    return layer(x, x, x, average_attn_weights=False)


# === nothing-carried: a copy is filled
def packed(q_weight, k_weight, v_weight):
    return torch.cat([q_weight, k_weight, v_weight], dim=0)


def torch_attention(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    layer = nn.MultiheadAttention(x.size(-1), num_heads, bias=False, batch_first=True)
    with torch.no_grad():
        layer.in_proj_weight.clone().copy_(packed(q_weight, k_weight, v_weight))
        layer.out_proj.weight.clone().copy_(out_weight)
    return layer(x, x, x, average_attn_weights=False)


# === output-projection-transposed
def packed(q_weight, k_weight, v_weight):
    return torch.cat([q_weight, k_weight, v_weight], dim=0)


def torch_attention(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    layer = nn.MultiheadAttention(x.size(-1), num_heads, bias=False, batch_first=True)
    with torch.no_grad():
        layer.in_proj_weight.copy_(packed(q_weight, k_weight, v_weight))
        layer.out_proj.weight.copy_(out_weight.mT)
    return layer(x, x, x, average_attn_weights=False)


# === projected-twice
def packed(q_weight, k_weight, v_weight):
    return torch.cat([q_weight, k_weight, v_weight], dim=0)


def torch_attention(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    layer = nn.MultiheadAttention(x.size(-1), num_heads, bias=False, batch_first=True)
    in_proj = packed(q_weight, k_weight, v_weight)
    layer.load_state_dict({"in_proj_weight": in_proj, "out_proj.weight": out_weight})
    q, k, v = F.linear(x, q_weight), F.linear(x, k_weight), F.linear(x, v_weight)
    return layer(q, k, v, average_attn_weights=False)


# === weights-missing
def packed(q_weight, k_weight, v_weight):
    return torch.cat([q_weight, k_weight, v_weight], dim=0)


def torch_attention(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    layer = nn.MultiheadAttention(x.size(-1), num_heads, bias=False, batch_first=True)
    in_proj = packed(q_weight, k_weight, v_weight)
    layer.load_state_dict({"in_proj_weight": in_proj, "out_proj.weight": out_weight})
    return layer(x, x, x, need_weights=False)

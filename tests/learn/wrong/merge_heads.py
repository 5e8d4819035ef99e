# === heads-merged-by-view
def merge_heads(context, d_model):
    B, H, T, d_head = context.shape
    if H * d_head != d_model:
        raise ValueError("heads")
    return context.contiguous().view(B, T, d_model)


# === heads-merged-by-view: with reshape
def merge_heads(context, d_model):
    if context.dim() != 4 or context.size(1) * context.size(-1) != d_model:
        raise ValueError("heads")
    return context.reshape(context.size(0), context.size(2), -1)


# === view-after-transpose
def merge_heads(context, d_model):
    if context.dim() != 4 or context.size(1) * context.size(-1) != d_model:
        raise ValueError("heads")
    B, H, T, d_head = context.shape
    return context.transpose(1, 2).view(B, T, d_model)


# === features-take-turns
def merge_heads(context, d_model):
    B, H, T, d_head = context.shape
    if H * d_head != d_model:
        raise ValueError("heads")
    return torch.einsum("bhtd->btdh", context).reshape(B, T, -1)


# === features-take-turns: a stack on the last axis
def merge_heads(context, d_model):
    if context.dim() != 4 or context.size(1) * context.size(-1) != d_model:
        raise ValueError("heads")
    return torch.stack(list(context.unbind(1)), dim=-1).flatten(-2)


# === heads-summed
def merge_heads(context, d_model):
    if context.dim() != 4 or context.size(1) * context.size(-1) != d_model:
        raise ValueError("heads")
    return context.sum(dim=1)


# === heads-averaged
def merge_heads(context, d_model):
    if context.dim() != 4 or context.size(1) * context.size(-1) != d_model:
        raise ValueError("heads")
    return torch.mean(context, dim=1)


# === heads-kept-apart
def merge_heads(context, d_model):
    B, H, T, d_head = context.shape
    if H * d_head != d_model:
        raise ValueError("heads")
    return context.permute(0, 2, 1, 3)


# === heads-reversed
def merge_heads(context, d_model):
    if context.dim() != 4 or context.size(1) * context.size(-1) != d_model:
        raise ValueError("heads")
    merged = context[:, 0]
    for h in range(1, context.size(1)):
        merged = torch.cat([context[:, h], merged], dim=-1)
    return merged


# === heads-end-to-end
def merge_heads(context, d_model):
    if context.dim() != 4 or context.size(1) * context.size(-1) != d_model:
        raise ValueError("heads")
    return torch.cat(list(context.unbind(1)), dim=1)


# === tokens-before-batch
def merge_heads(context, d_model):
    if context.dim() != 4 or context.size(1) * context.size(-1) != d_model:
        raise ValueError("heads")
    return context.permute(2, 0, 1, 3).flatten(2)


# === unclear-error: nothing is checked
def merge_heads(context, d_model):
    return context.transpose(1, 2).contiguous().view(context.size(0), context.size(2), d_model)


# === width-not-checked
def merge_heads(context, d_model):
    if context.dim() != 4:
        raise ValueError("expected four axes")
    B, H, T, d_head = context.shape
    return context.transpose(1, 2).reshape(B, T, H * d_head)

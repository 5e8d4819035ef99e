# === whole-row-held: the plain formula
def attend_in_blocks(q, k, v, block_size):
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1) @ v


# === whole-row-held: all scores, cut into blocks afterwards
def attend_in_blocks(q, k, v, block_size):
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.size(-1))
    largest = scores.amax(-1, keepdim=True)
    total, mix = 0, 0
    for s, values in zip(scores.split(block_size, -1), v.split(block_size, -2)):
        shares = (s - largest).exp()
        total, mix = total + shares.sum(-1, keepdim=True), mix + shares @ values
    return mix / total


# === nothing-rescaled
def attend_in_blocks(q, k, v, block_size):
    largest = torch.full((*q.shape[:-1], 1), -math.inf)  # (B, H, T_q, 1)
    total = torch.zeros(*q.shape[:-1], 1)  # (B, H, T_q, 1)
    mix = torch.zeros(*q.shape[:-1], v.size(-1))  # (B, H, T_q, d_v)
    for start in range(0, k.size(-2), block_size):
        keys = k[..., start : start + block_size, :]  # (B, H, block, d_head)
        scores = q @ keys.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, block)
        new_largest = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))  # (B, H, T_q, 1)
        shares = torch.exp(scores - new_largest)  # (B, H, T_q, block)
        rescale = torch.exp(largest - new_largest)  # (B, H, T_q, 1): 0 for the first block
        total = total + shares.sum(dim=-1, keepdim=True)
        mix = mix + shares @ v[..., start : start + block_size, :]
        largest = new_largest
    return mix / total


# === total-not-rescaled
def attend_in_blocks(q, k, v, block_size):
    largest = torch.full((*q.shape[:-1], 1), -math.inf)  # (B, H, T_q, 1)
    total = torch.zeros(*q.shape[:-1], 1)  # (B, H, T_q, 1)
    mix = torch.zeros(*q.shape[:-1], v.size(-1))  # (B, H, T_q, d_v)
    for start in range(0, k.size(-2), block_size):
        keys = k[..., start : start + block_size, :]  # (B, H, block, d_head)
        scores = q @ keys.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, block)
        new_largest = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))  # (B, H, T_q, 1)
        shares = torch.exp(scores - new_largest)  # (B, H, T_q, block)
        rescale = torch.exp(largest - new_largest)  # (B, H, T_q, 1): 0 for the first block
        total = total + shares.sum(dim=-1, keepdim=True)
        mix = mix * rescale + shares @ v[..., start : start + block_size, :]
        largest = new_largest
    return mix / total


# === mix-not-rescaled
def attend_in_blocks(q, k, v, block_size):
    largest = torch.full((*q.shape[:-1], 1), -math.inf)  # (B, H, T_q, 1)
    total = torch.zeros(*q.shape[:-1], 1)  # (B, H, T_q, 1)
    mix = torch.zeros(*q.shape[:-1], v.size(-1))  # (B, H, T_q, d_v)
    for start in range(0, k.size(-2), block_size):
        keys = k[..., start : start + block_size, :]  # (B, H, block, d_head)
        scores = q @ keys.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, block)
        new_largest = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))  # (B, H, T_q, 1)
        shares = torch.exp(scores - new_largest)  # (B, H, T_q, block)
        rescale = torch.exp(largest - new_largest)  # (B, H, T_q, 1): 0 for the first block
        total = total * rescale + shares.sum(dim=-1, keepdim=True)
        mix = mix + shares @ v[..., start : start + block_size, :]
        largest = new_largest
    return mix / total


# === blocks-averaged
def attend_in_blocks(q, k, v, block_size):
    outputs = []
    for keys, values in zip(k.split(block_size, 2), v.split(block_size, 2)):
        scores = torch.einsum("bhqd,bhkd->bhqk", q, keys) / q.shape[-1] ** 0.5
        outputs.append(scores.softmax(-1) @ values)
    return sum(outputs) / len(outputs)


# === blocks-added
def attend_in_blocks(q, k, v, block_size):
    output = torch.zeros(*q.shape[:-1], v.shape[-1])
    for i in range(0, k.shape[2], block_size):
        weights = F.softmax(q @ k[:, :, i : i + block_size].mT / q.shape[-1] ** 0.5, dim=-1)
        output += weights @ v[:, :, i : i + block_size]
    return output


# === softmax-without-max
def attend_in_blocks(q, k, v, block_size):
    largest = torch.full((*q.shape[:-1], 1), -math.inf)  # (B, H, T_q, 1)
    total = torch.zeros(*q.shape[:-1], 1)  # (B, H, T_q, 1)
    mix = torch.zeros(*q.shape[:-1], v.size(-1))  # (B, H, T_q, d_v)
    for start in range(0, k.size(-2), block_size):
        keys = k[..., start : start + block_size, :]  # (B, H, block, d_head)
        scores = q @ keys.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, block)
        new_largest = torch.zeros_like(total)  # (B, H, T_q, 1)
        shares = torch.exp(scores - new_largest)  # (B, H, T_q, block)
        rescale = 1
        total = total * rescale + shares.sum(dim=-1, keepdim=True)
        mix = mix * rescale + shares @ v[..., start : start + block_size, :]
        largest = new_largest
    return mix / total


# === block-remainder-dropped
def attend_in_blocks(q, k, v, block_size):
    largest = torch.full((*q.shape[:-1], 1), -math.inf)  # (B, H, T_q, 1)
    total = torch.zeros(*q.shape[:-1], 1)  # (B, H, T_q, 1)
    mix = torch.zeros(*q.shape[:-1], v.size(-1))  # (B, H, T_q, d_v)
    for start in range(0, k.size(-2) - block_size + 1, block_size):
        keys = k[..., start : start + block_size, :]  # (B, H, block, d_head)
        scores = q @ keys.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, block)
        new_largest = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))  # (B, H, T_q, 1)
        shares = torch.exp(scores - new_largest)  # (B, H, T_q, block)
        rescale = torch.exp(largest - new_largest)  # (B, H, T_q, 1): 0 for the first block
        total = total * rescale + shares.sum(dim=-1, keepdim=True)
        mix = mix * rescale + shares @ v[..., start : start + block_size, :]
        largest = new_largest
    return mix / total


# === maximum-starts-at-zero
def attend_in_blocks(q, k, v, block_size):
    largest = torch.zeros(*q.shape[:-1], 1)  # (B, H, T_q, 1)
    total = torch.zeros(*q.shape[:-1], 1)  # (B, H, T_q, 1)
    mix = torch.zeros(*q.shape[:-1], v.size(-1))  # (B, H, T_q, d_v)
    for start in range(0, k.size(-2), block_size):
        keys = k[..., start : start + block_size, :]  # (B, H, block, d_head)
        scores = q @ keys.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, block)
        new_largest = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))  # (B, H, T_q, 1)
        shares = torch.exp(scores - new_largest)  # (B, H, T_q, block)
        rescale = torch.exp(largest - new_largest)  # (B, H, T_q, 1): 0 for the first block
        total = total * rescale + shares.sum(dim=-1, keepdim=True)
        mix = mix * rescale + shares @ v[..., start : start + block_size, :]
        largest = new_largest
    return mix / total


# === scale-missing
def attend_in_blocks(q, k, v, block_size):
    largest = torch.full((*q.shape[:-1], 1), -math.inf)  # (B, H, T_q, 1)
    total = torch.zeros(*q.shape[:-1], 1)  # (B, H, T_q, 1)
    mix = torch.zeros(*q.shape[:-1], v.size(-1))  # (B, H, T_q, d_v)
    for start in range(0, k.size(-2), block_size):
        keys = k[..., start : start + block_size, :]  # (B, H, block, d_head)
        scores = q @ keys.transpose(-2, -1)  # (B, H, T_q, block)
        new_largest = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))  # (B, H, T_q, 1)
        shares = torch.exp(scores - new_largest)  # (B, H, T_q, block)
        rescale = torch.exp(largest - new_largest)  # (B, H, T_q, 1): 0 for the first block
        total = total * rescale + shares.sum(dim=-1, keepdim=True)
        mix = mix * rescale + shares @ v[..., start : start + block_size, :]
        largest = new_largest
    return mix / total


# === rescaled-upside-down
def attend_in_blocks(q, k, v, block_size):
    largest = torch.full((*q.shape[:-1], 1), -math.inf)  # (B, H, T_q, 1)
    total = torch.zeros(*q.shape[:-1], 1)  # (B, H, T_q, 1)
    mix = torch.zeros(*q.shape[:-1], v.size(-1))  # (B, H, T_q, d_v)
    for start in range(0, k.size(-2), block_size):
        keys = k[..., start : start + block_size, :]  # (B, H, block, d_head)
        scores = q @ keys.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, block)
        new_largest = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))  # (B, H, T_q, 1)
        shares = torch.exp(scores - new_largest)  # (B, H, T_q, block)
        rescale = torch.exp(new_largest - largest) if start else 0.0
        total = total * rescale + shares.sum(dim=-1, keepdim=True)
        mix = mix * rescale + shares @ v[..., start : start + block_size, :]
        largest = new_largest
    return mix / total

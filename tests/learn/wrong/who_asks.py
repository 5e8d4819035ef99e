# === another-bug cross-values-from-target: the name is wrong
BUG = "value-unprojected"


class CrossAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, memory, memory_mask=None):
        q = self.to_q(x)
        k = self.to_kv(memory).chunk(2, dim=-1)[0]
        v = self.to_kv(x).chunk(2, dim=-1)[1]
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        if memory_mask is not None:
            memory_mask = memory_mask[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=memory_mask)
        return self.to_out(out.transpose(1, 2).flatten(2))


# === unknown-name cross-values-from-target: the name does not exist
BUG = "values-from-target"


class CrossAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, memory, memory_mask=None):
        q = self.to_q(x)
        k = self.to_kv(memory).chunk(2, dim=-1)[0]
        v = self.to_kv(x).chunk(2, dim=-1)[1]
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        if memory_mask is not None:
            memory_mask = memory_mask[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=memory_mask)
        return self.to_out(out.transpose(1, 2).flatten(2))


# === cross-values-from-target: named and not mended
BUG = "cross-values-from-target"


class CrossAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, memory, memory_mask=None):
        q = self.to_q(x)
        k = self.to_kv(memory).chunk(2, dim=-1)[0]
        v = self.to_kv(x).chunk(2, dim=-1)[1]
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        if memory_mask is not None:
            memory_mask = memory_mask[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=memory_mask)
        return self.to_out(out.transpose(1, 2).flatten(2))


# === cross-values-from-target: mended the wrong way, keys and values of the target
BUG = "SL314"


class CrossAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, memory, memory_mask=None):
        q = self.to_q(x)
        k = self.to_kv(x).chunk(2, dim=-1)[0]
        v = self.to_kv(x).chunk(2, dim=-1)[1]
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        if memory_mask is not None:
            memory_mask = memory_mask[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=memory_mask)
        return self.to_out(out.transpose(1, 2).flatten(2))


# === bug-not-named: mended, without the name
BUG = ""


class CrossAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, memory, memory_mask=None):
        q = self.to_q(x)
        k = self.to_kv(memory).chunk(2, dim=-1)[0]
        v = self.to_kv(memory).chunk(2, dim=-1)[1]
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        if memory_mask is not None:
            memory_mask = memory_mask[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=memory_mask)
        return self.to_out(out.transpose(1, 2).flatten(2))


# === another-bug: mended, with another name
BUG = "memory-mask-misplaced"


class CrossAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, memory, memory_mask=None):
        q = self.to_q(x)
        k = self.to_kv(memory).chunk(2, dim=-1)[0]
        v = self.to_kv(memory).chunk(2, dim=-1)[1]
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        if memory_mask is not None:
            memory_mask = memory_mask[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=memory_mask)
        return self.to_out(out.transpose(1, 2).flatten(2))


# === fused-qkv-misread: mended, with the half of the keys
BUG = "cross-values-from-target"


class CrossAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, memory, memory_mask=None):
        q = self.to_q(x)
        k = self.to_kv(memory).chunk(2, dim=-1)[0]
        v = self.to_kv(memory).chunk(2, dim=-1)[0]
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        if memory_mask is not None:
            memory_mask = memory_mask[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=memory_mask)
        return self.to_out(out.transpose(1, 2).flatten(2))


# === mask-ignored: mended, and something lost
BUG = "cross-values-from-target"


class CrossAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, memory, memory_mask=None):
        q = self.to_q(x)
        k = self.to_kv(memory).chunk(2, dim=-1)[0]
        v = self.to_kv(memory).chunk(2, dim=-1)[1]
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        if memory_mask is not None:
            memory_mask = memory_mask[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(out.transpose(1, 2).flatten(2))


# === mask-inverted: mended, and the mask turned round
BUG = "cross-values-from-target"


class CrossAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, memory, memory_mask=None):
        q = self.to_q(x)
        k = self.to_kv(memory).chunk(2, dim=-1)[0]
        v = self.to_kv(memory).chunk(2, dim=-1)[1]
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        if memory_mask is not None:
            memory_mask = memory_mask[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=None if memory_mask is None else ~memory_mask)
        return self.to_out(out.transpose(1, 2).flatten(2))

# === another-bug scale-doubled: the name is wrong
BUG = "scale-missing"


class SelfAttention(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)  # k, then v
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, padding_mask=None):
        q = self.to_q(x)  # (B, T, dim)
        k, v = self.to_kv(x).chunk(2, dim=-1)  # (B, T, dim) each
        # (B, T, dim) -> (B, heads, T, d_head)
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        q = q * self.scale
        allowed = None if padding_mask is None else ~padding_mask[:, None, None]  # (B, 1, 1, T)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.to_out(out.transpose(1, 2).flatten(2))  # (B, T, dim)


# === unknown-name scale-doubled: the name does not exist
BUG = "flat-maps"


class SelfAttention(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)  # k, then v
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, padding_mask=None):
        q = self.to_q(x)  # (B, T, dim)
        k, v = self.to_kv(x).chunk(2, dim=-1)  # (B, T, dim) each
        # (B, T, dim) -> (B, heads, T, d_head)
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        q = q * self.scale
        allowed = None if padding_mask is None else ~padding_mask[:, None, None]  # (B, 1, 1, T)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.to_out(out.transpose(1, 2).flatten(2))  # (B, T, dim)


# === scale-doubled: named and not mended
BUG = "scale-doubled"


class SelfAttention(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)  # k, then v
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, padding_mask=None):
        q = self.to_q(x)  # (B, T, dim)
        k, v = self.to_kv(x).chunk(2, dim=-1)  # (B, T, dim) each
        # (B, T, dim) -> (B, heads, T, d_head)
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        q = q * self.scale
        allowed = None if padding_mask is None else ~padding_mask[:, None, None]  # (B, 1, 1, T)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.to_out(out.transpose(1, 2).flatten(2))  # (B, T, dim)


# === scale-missing: both of them taken out
BUG = "SL205"


class SelfAttention(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)  # k, then v
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, padding_mask=None):
        q = self.to_q(x)  # (B, T, dim)
        k, v = self.to_kv(x).chunk(2, dim=-1)  # (B, T, dim) each
        # (B, T, dim) -> (B, heads, T, d_head)
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        allowed = None if padding_mask is None else ~padding_mask[:, None, None]  # (B, 1, 1, T)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=1.0)
        return self.to_out(out.transpose(1, 2).flatten(2))  # (B, T, dim)


# === scale-not-rooted: one of them taken out, and the root as well
BUG = "scale-doubled"


class SelfAttention(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = 1 / (dim // heads)
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)  # k, then v
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, padding_mask=None):
        q = self.to_q(x)  # (B, T, dim)
        k, v = self.to_kv(x).chunk(2, dim=-1)  # (B, T, dim) each
        # (B, T, dim) -> (B, heads, T, d_head)
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        allowed = None if padding_mask is None else ~padding_mask[:, None, None]  # (B, 1, 1, T)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=self.scale)
        return self.to_out(out.transpose(1, 2).flatten(2))  # (B, T, dim)


# === scale-wrong-width: the root of the whole width
BUG = "scale-doubled"


class SelfAttention(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = dim**-0.5
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)  # k, then v
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, padding_mask=None):
        q = self.to_q(x)  # (B, T, dim)
        k, v = self.to_kv(x).chunk(2, dim=-1)  # (B, T, dim) each
        # (B, T, dim) -> (B, heads, T, d_head)
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        allowed = None if padding_mask is None else ~padding_mask[:, None, None]  # (B, 1, 1, T)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=self.scale)
        return self.to_out(out.transpose(1, 2).flatten(2))  # (B, T, dim)


# === bug-not-named: mended, without the name
BUG = ""


class SelfAttention(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)  # k, then v
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, padding_mask=None):
        q = self.to_q(x)  # (B, T, dim)
        k, v = self.to_kv(x).chunk(2, dim=-1)  # (B, T, dim) each
        # (B, T, dim) -> (B, heads, T, d_head)
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        allowed = None if padding_mask is None else ~padding_mask[:, None, None]  # (B, 1, 1, T)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=self.scale)
        return self.to_out(out.transpose(1, 2).flatten(2))  # (B, T, dim)


# === another-bug: mended, with another name
BUG = "scale-after-softmax"


class SelfAttention(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)  # k, then v
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, padding_mask=None):
        q = self.to_q(x)  # (B, T, dim)
        k, v = self.to_kv(x).chunk(2, dim=-1)  # (B, T, dim) each
        # (B, T, dim) -> (B, heads, T, d_head)
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        allowed = None if padding_mask is None else ~padding_mask[:, None, None]  # (B, 1, 1, T)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=self.scale)
        return self.to_out(out.transpose(1, 2).flatten(2))  # (B, T, dim)


# === mask-inverted: mended, and the mask handed over as it comes
BUG = "scale-doubled"


class SelfAttention(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)  # k, then v
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, padding_mask=None):
        q = self.to_q(x)  # (B, T, dim)
        k, v = self.to_kv(x).chunk(2, dim=-1)  # (B, T, dim) each
        # (B, T, dim) -> (B, heads, T, d_head)
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        allowed = None if padding_mask is None else padding_mask[:, None, None]  # (B, 1, 1, T)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=self.scale)
        return self.to_out(out.transpose(1, 2).flatten(2))  # (B, T, dim)

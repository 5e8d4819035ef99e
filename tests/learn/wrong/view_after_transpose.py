# === another-bug heads-merged-by-view: the name is wrong
BUG = "heads-split-by-view"


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)  # q, k and v in one product
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, n_head, T, d_head)
        y = y.contiguous().view(B, T, C)
        return self.c_proj(y)


# === unknown-name heads-merged-by-view: the name does not exist
BUG = "view-after-transpose"


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)  # q, k and v in one product
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, n_head, T, d_head)
        y = y.contiguous().view(B, T, C)
        return self.c_proj(y)


# === heads-merged-by-view: named and not mended
BUG = "heads-merged-by-view"


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)  # q, k and v in one product
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, n_head, T, d_head)
        y = y.contiguous().view(B, T, C)
        return self.c_proj(y)


# === heads-merged-by-view: named, and silenced by reshape
BUG = "SL302"


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)  # q, k and v in one product
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, n_head, T, d_head)
        y = y.reshape(B, T, C)
        return self.c_proj(y)


# === bug-not-named: mended, without the name
BUG = ""


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)  # q, k and v in one product
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, n_head, T, d_head)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


# === another-bug: mended, with another name
BUG = "heads-attend-to-heads"


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)  # q, k and v in one product
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, n_head, T, d_head)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


# === heads-summed: mended with a sum
BUG = "heads-merged-by-view"


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)  # q, k and v in one product
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, n_head, T, d_head)
        y = y.sum(1).repeat(1, 1, self.n_head)
        return self.c_proj(y)


# === future-visible: mended, and something lost
BUG = "heads-merged-by-view"


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)  # q, k and v in one product
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        y = F.scaled_dot_product_attention(q, k, v)  # (B, n_head, T, d_head)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


# === output-projection-missing: mended, and the last line forgotten
BUG = "heads-merged-by-view"


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)  # q, k and v in one product
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, n_head, T, d_head)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return y


# === heads-split-by-view: the mistake moved to the other end
BUG = "heads-merged-by-view"


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)  # q, k and v in one product
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k.reshape(B, self.n_head, T, C // self.n_head)  # (B, n_head, T, d_head)
        q = q.reshape(B, self.n_head, T, C // self.n_head)  # (B, n_head, T, d_head)
        v = v.reshape(B, self.n_head, T, C // self.n_head)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, n_head, T, d_head)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)

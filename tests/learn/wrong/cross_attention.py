# === cross-values-from-target
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split_heads(self, x):
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def merge_heads(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, query_states, memory_states, memory_mask=None):
        q = self.split_heads(self.q_proj(query_states))
        k = self.split_heads(self.k_proj(memory_states))
        v = self.split_heads(self.v_proj(query_states))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        if memory_mask is not None:
            scores = scores.masked_fill(~memory_mask[:, None, None, :], -math.inf)
        weights = torch.softmax(scores, dim=-1)
        return self.out_proj(self.merge_heads(weights @ v)), weights


# === cross-values-from-target: the keys
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split_heads(self, x):
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def merge_heads(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, query_states, memory_states, memory_mask=None):
        q, k, v = self.q_proj(query_states), self.k_proj(query_states), self.v_proj(memory_states)
        q, k, v = map(self.split_heads, (q, k, v))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * self.d_head**-0.5
        if memory_mask is not None:
            bias = torch.zeros(memory_mask.shape).masked_fill(memory_mask.logical_not(), float("-inf"))
            scores = scores + bias.view(bias.size(0), 1, 1, -1)
        weights = scores.softmax(-1)
        context = torch.einsum("bhij,bhjd->bhid", weights, v)
        return self.out_proj(self.merge_heads(context)), weights


# === memory-ignored: keys and values of the target
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split_heads(self, x):
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def merge_heads(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, query_states, memory_states, memory_mask=None):
        q = self.split_heads(self.q_proj(query_states))
        k = self.split_heads(self.k_proj(query_states))
        v = self.split_heads(self.v_proj(query_states))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        if memory_mask is not None:
            pass
        weights = torch.softmax(scores, dim=-1)
        return self.out_proj(self.merge_heads(weights @ v)), weights


# === roles-swapped
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split_heads(self, x):
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def merge_heads(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, query_states, memory_states, memory_mask=None):
        q = self.split_heads(self.q_proj(memory_states))
        k = self.split_heads(self.k_proj(query_states))
        v = self.split_heads(self.v_proj(query_states))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        if memory_mask is not None:
            scores = scores.masked_fill(~memory_mask[:, None, None, :], -math.inf)
        weights = torch.softmax(scores, dim=-1)
        return self.out_proj(self.merge_heads(weights @ v)), weights


# === mask-hides-queries: hides rows
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split_heads(self, x):
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def merge_heads(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, query_states, memory_states, memory_mask=None):
        q, k, v = self.q_proj(query_states), self.k_proj(memory_states), self.v_proj(memory_states)
        q, k, v = map(self.split_heads, (q, k, v))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * self.d_head**-0.5
        if memory_mask is not None:
            bias = torch.zeros(memory_mask.shape).masked_fill(memory_mask.logical_not(), float("-inf"))
            scores = scores + bias.view(bias.size(0), 1, -1, 1)
        weights = scores.softmax(-1)
        context = torch.einsum("bhij,bhjd->bhid", weights, v)
        return self.out_proj(self.merge_heads(context)), weights


# === mask-inverted
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split_heads(self, x):
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def merge_heads(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, query_states, memory_states, memory_mask=None):
        q = self.split_heads(self.q_proj(query_states))
        k = self.split_heads(self.k_proj(memory_states))
        v = self.split_heads(self.v_proj(memory_states))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        if memory_mask is not None:
            scores = scores.masked_fill(memory_mask[:, None, None, :], -math.inf)
        weights = torch.softmax(scores, dim=-1)
        return self.out_proj(self.merge_heads(weights @ v)), weights


# === mask-ignored: the result is thrown away
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split_heads(self, x):
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def merge_heads(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, query_states, memory_states, memory_mask=None):
        q = self.split_heads(self.q_proj(query_states))
        k = self.split_heads(self.k_proj(memory_states))
        v = self.split_heads(self.v_proj(memory_states))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        if memory_mask is not None:
            scores.masked_fill(~memory_mask[:, None, None, :], -math.inf)
        weights = torch.softmax(scores, dim=-1)
        return self.out_proj(self.merge_heads(weights @ v)), weights


# === mask-shared-across-batch
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split_heads(self, x):
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def merge_heads(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, query_states, memory_states, memory_mask=None):
        q = self.split_heads(self.q_proj(query_states))
        k = self.split_heads(self.k_proj(memory_states))
        v = self.split_heads(self.v_proj(memory_states))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        if memory_mask is not None:
            scores = scores.masked_fill(~memory_mask[:1, None, None, :], -math.inf)
        weights = torch.softmax(scores, dim=-1)
        return self.out_proj(self.merge_heads(weights @ v)), weights


# === mask-after-softmax
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split_heads(self, x):
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def merge_heads(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, query_states, memory_states, memory_mask=None):
        q = self.split_heads(self.q_proj(query_states))
        k = self.split_heads(self.k_proj(memory_states))
        v = self.split_heads(self.v_proj(memory_states))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        weights = torch.softmax(scores, dim=-1)
        if memory_mask is not None:
            weights = weights * memory_mask[:, None, None, :]
        return self.out_proj(self.merge_heads(weights @ v)), weights


# === scale-wrong-width
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split_heads(self, x):
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def merge_heads(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, query_states, memory_states, memory_mask=None):
        q, k, v = self.q_proj(query_states), self.k_proj(memory_states), self.v_proj(memory_states)
        q, k, v = map(self.split_heads, (q, k, v))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * query_states.size(-1) ** -0.5
        if memory_mask is not None:
            bias = torch.zeros(memory_mask.shape).masked_fill(memory_mask.logical_not(), float("-inf"))
            scores = scores + bias.view(bias.size(0), 1, 1, -1)
        weights = scores.softmax(-1)
        context = torch.einsum("bhij,bhjd->bhid", weights, v)
        return self.out_proj(self.merge_heads(context)), weights


# === scores-transposed: an einsum with the letters swapped
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split_heads(self, x):
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def merge_heads(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, query_states, memory_states, memory_mask=None):
        q, k, v = self.q_proj(query_states), self.k_proj(memory_states), self.v_proj(memory_states)
        q, k, v = map(self.split_heads, (q, k, v))
        scores = torch.einsum("bhid,bhjd->bhij", k, q) * self.d_head**-0.5
        if memory_mask is not None:
            bias = torch.zeros(memory_mask.shape).masked_fill(memory_mask.logical_not(), float("-inf"))
            scores = scores + bias.view(bias.size(0), 1, 1, -1)
        weights = scores.softmax(-1)
        context = torch.einsum("bhij,bhjd->bhid", weights, v)
        return self.out_proj(self.merge_heads(context)), weights


# === projection-reused
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split_heads(self, x):
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def merge_heads(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, query_states, memory_states, memory_mask=None):
        q = self.split_heads(self.q_proj(query_states))
        k = self.split_heads(self.k_proj(memory_states))
        v = self.split_heads(self.k_proj(memory_states))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        if memory_mask is not None:
            scores = scores.masked_fill(~memory_mask[:, None, None, :], -math.inf)
        weights = torch.softmax(scores, dim=-1)
        return self.out_proj(self.merge_heads(weights @ v)), weights


# === keys-used-as-values
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split_heads(self, x):
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def merge_heads(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, query_states, memory_states, memory_mask=None):
        q = self.split_heads(self.q_proj(query_states))
        k = self.split_heads(self.k_proj(memory_states))
        v = self.split_heads(self.v_proj(memory_states))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        if memory_mask is not None:
            scores = scores.masked_fill(~memory_mask[:, None, None, :], -math.inf)
        weights = torch.softmax(scores, dim=-1)
        return self.out_proj(self.merge_heads(weights @ k)), weights


# === outputs-swapped
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split_heads(self, x):
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def merge_heads(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, query_states, memory_states, memory_mask=None):
        q = self.split_heads(self.q_proj(query_states))
        k = self.split_heads(self.k_proj(memory_states))
        v = self.split_heads(self.v_proj(memory_states))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        if memory_mask is not None:
            scores = scores.masked_fill(~memory_mask[:, None, None, :], -math.inf)
        weights = torch.softmax(scores, dim=-1)
        return weights, self.out_proj(self.merge_heads(weights @ v))


# === weights-missing
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split_heads(self, x):
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def merge_heads(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, query_states, memory_states, memory_mask=None):
        q = self.split_heads(self.q_proj(query_states))
        k = self.split_heads(self.k_proj(memory_states))
        v = self.split_heads(self.v_proj(memory_states))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        if memory_mask is not None:
            scores = scores.masked_fill(~memory_mask[:, None, None, :], -math.inf)
        weights = torch.softmax(scores, dim=-1)
        return self.out_proj(self.merge_heads(weights @ v))


# === weights-averaged
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split_heads(self, x):
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def merge_heads(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, query_states, memory_states, memory_mask=None):
        q, k, v = self.q_proj(query_states), self.k_proj(memory_states), self.v_proj(memory_states)
        q, k, v = map(self.split_heads, (q, k, v))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * self.d_head**-0.5
        if memory_mask is not None:
            bias = torch.zeros(memory_mask.shape).masked_fill(memory_mask.logical_not(), float("-inf"))
            scores = scores + bias.view(bias.size(0), 1, 1, -1)
        weights = scores.softmax(-1)
        context = torch.einsum("bhij,bhjd->bhid", weights, v)
        return self.out_proj(self.merge_heads(context)), weights.mean(dim=1)


# === causal-unwanted: a triangle from lesson 3
class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split_heads(self, x):
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def merge_heads(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, query_states, memory_states, memory_mask=None):
        q = self.split_heads(self.q_proj(query_states))
        k = self.split_heads(self.k_proj(memory_states))
        v = self.split_heads(self.v_proj(memory_states))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        if memory_mask is not None:
            scores = scores.masked_fill(~memory_mask[:, None, None, :], -math.inf)
        T, S = scores.shape[-2:]
        scores = scores.masked_fill(~torch.ones(T, S).tril().bool(), -math.inf)
        weights = torch.softmax(scores, dim=-1)
        return self.out_proj(self.merge_heads(weights @ v)), weights

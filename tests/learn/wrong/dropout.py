# === dropout-in-eval: the default of F.dropout
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        weights = F.dropout(weights, self.dropout)
        return weights @ v, weights


# === dropout-in-eval: a part that is made anew in every call
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        weights = nn.Dropout(self.dropout)(weights)
        return weights @ v, weights


# === dropout-inactive: the result is thrown away
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        F.dropout(weights, self.dropout, self.training)
        return weights @ v, weights


# === dropout-inactive: the other way round
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        if not self.training:
            weights = F.dropout(weights, self.dropout, training=self.training)
        return weights @ v, weights


# === dropout-on-output
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        return F.dropout(weights @ v, self.dropout, self.training), weights


# === dropout-before-softmax
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        scores = F.dropout(scores, self.dropout, self.training)
        weights = torch.softmax(scores, dim=-1)
        return weights @ v, weights


# === dropped-elsewhere: the values
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        return weights @ F.dropout(v, self.dropout, self.training), weights


# === output-not-dropped: two products
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        dropped = F.dropout(weights, self.dropout, self.training)
        return weights @ v, dropped


# === dropped-elsewhere: the weights without dropout are returned
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        return F.dropout(weights, self.dropout, self.training) @ v, weights


# === kept-and-dropped-swapped
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        if self.training:
            keep = torch.rand_like(weights) < self.dropout
            weights = weights * keep / self.dropout
        return weights @ v, weights


# === kept-not-rescaled
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        if self.training:
            weights = weights.masked_fill(torch.rand_like(weights) < self.dropout, 0.0)
        return weights @ v, weights


# === wrong-factor
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        if self.training:
            weights = weights * (torch.rand_like(weights) >= self.dropout) / self.dropout
        return weights @ v, weights


# === rows-normalised-again
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        weights = F.dropout(weights, self.dropout, self.training)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return weights @ v, weights


# === rows-normalised-again: scores hidden at random
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if self.training:
            scores = scores.masked_fill(torch.rand_like(scores) < self.dropout, -math.inf)
        weights = torch.softmax(scores, dim=-1)
        return weights @ v, weights


# === whole-keys-dropped
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        if self.training:
            keep = torch.bernoulli(torch.full((weights.size(-1),), 1 - self.dropout))
            weights = weights * keep / (1 - self.dropout)
        return weights @ v, weights


# === whole-queries-dropped: a dropout for channels
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        weights = F.dropout1d(weights.flatten(0, 1), self.dropout, self.training).view_as(weights)
        return weights @ v, weights


# === one-pattern-for-all
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        if self.training:
            keep = torch.rand(weights.shape[-2:]) >= self.dropout
            weights = weights * keep / (1 - self.dropout)
        return weights @ v, weights


# === wrong-probability: the default of nn.Dropout
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout
        self.drop = nn.Dropout()

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        weights = self.drop(weights)
        return weights @ v, weights


# === rescaled-in-evaluation: the factor is in the wrong mode
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        if self.training:
            weights = weights * (torch.rand_like(weights) >= self.dropout)
        else:
            weights = weights * (1 - self.dropout)
        return weights @ v, weights


# === divided-in-evaluation
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        if self.training:
            weights = weights * (torch.rand_like(weights) >= self.dropout)
        weights = weights / (1 - self.dropout)
        return weights @ v, weights


# === outputs-swapped
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores, dim=-1)
        weights = F.dropout(weights, self.dropout, self.training)
        return weights, weights @ v


# === softmax-over-queries
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = F.dropout(scores.softmax(-2), self.dropout, self.training)
        return weights @ v, weights


# === whole-keys-dropped: other ones in each head
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)
        by_key = weights.transpose(-2, -1)
        by_key = F.dropout1d(by_key.flatten(0, 1), self.dropout, self.training).view_as(by_key)
        weights = by_key.transpose(-2, -1)
        return weights @ v, weights


# === wrong-shape: only the output in training
class DroppingAttention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v):
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)
        if self.training:
            return F.dropout(weights, self.dropout) @ v
        return weights @ v, weights

"""Models built by hand, in which it is known which keys matter to one query of one head.

The values of all heads are the input itself, and the scores are given, so that every weight and every share
is exact. ``plant(kind, seed)`` makes one model with some inputs; ``KINDS`` says what its verdict must be.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

KINDS = {
    "identity": "faithful",  # the query looks at itself
    "previous_token": "faithful",
    "graded": "faithful",  # weights fall from key to key, all values are of one length
    "uneven_values": "faithful",  # the same, and values of unequal lengths, up to three to one
    "local_window": "faithful",  # three keys share the weight, the others have none
    "twins": "faithful",  # two keys hold the same value and share most of the weight
    "decoy_of_zero_norm": "misleading",  # most weight on a key whose value is zero
    "decoy_second": "misleading",  # not the most weight, but much
    "decoy_unread": "misleading",  # on a value that the rest of the model does not read
    "reversed": "misleading",  # the longer the value, the smaller its weight
    "uniform": "not shown",
    "sink": "not shown",  # all weight on a first key that holds nothing: nothing flows
    "ignored_head": "not shown",  # nothing reads what the head writes
    "constant": "not shown",  # all keys hold the same value: any map does
    "one_key": "not shown",
    "unrelated": "not shown",  # what a key gives has nothing to do with its weight
    "backed_up": "not shown",  # another head gives the same, and one of them is enough
}


class GivenScores(nn.Module):
    """Attention with scores that are given, over values that are the input."""

    def __init__(self, num_heads):
        super().__init__()
        self.num_heads = num_heads

    def forward(self, values, log_weights):
        """values: [B, T, H * d_v];  log_weights: [B, H, T, T], -inf where a key is hidden."""
        length = values.shape[1]
        v = values.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # [B, H, T, d_v]
        finite = log_weights.clamp(min=-60.0)
        k = torch.eye(length).expand_as(finite)  # so that a query is its row of scores
        found = functional.scaled_dot_product_attention(
            finite * length**0.5, k, v, attn_mask=log_weights > -torch.inf
        )
        return found.transpose(1, 2).flatten(2)


@dataclass
class WithLogits:
    logits: torch.Tensor


class Planted(nn.Module):
    """Heads, a readout of what they wrote, and what follows it."""

    def __init__(self, num_heads, readout, *, logits=False, rest=None):
        super().__init__()
        self.attention = GivenScores(num_heads)
        self.register_buffer("readout", readout)
        self.logits, self.rest = logits, rest or nn.Identity()

    def forward(self, values, log_weights):
        found = self.rest(self.attention(values, log_weights) @ self.readout.T)
        return WithLogits(found) if self.logits else found


class Clamped(nn.Module):
    """What is enough is enough."""

    def forward(self, found):
        return (4 * found).clamp(-1, 1)


class AddedAndNormed(nn.Module):
    """A stream that others write into as well, a norm, and a layer behind it."""

    def __init__(self, width, draw):
        super().__init__()
        self.register_buffer("stream", torch.randn(width, generator=draw))
        self.register_buffer("inner", torch.randn(width, width, generator=draw) / width**0.5)

    def forward(self, found):
        normed = functional.layer_norm(found + self.stream, found.shape[-1:])
        return found + functional.gelu(normed @ self.inner)


def _rest(seed, draw):
    """Return what follows the readout: nothing, or in every third model a stream, a norm and a layer."""
    return AddedAndNormed(20, draw) if seed % 3 == 2 else None


@dataclass
class Case:
    kind: str
    seed: int
    model: nn.Module
    inputs: list
    head: int
    query: int
    truth: str


def plant(kind, seed):
    """Return a case of its own size. Every fourth has one input, and then more keys."""
    draw = torch.Generator().manual_seed(10_000 + seed)
    one_input = seed % 4 == 3 and kind not in ("decoy_second",)
    length = _between(draw, 26, 34) if one_input else _between(draw, 7, 18)
    heads, width = (1, 2, 4)[_between(draw, 0, 2)], (8, 12)[_between(draw, 0, 1)]
    if kind == "backed_up":
        heads = 2
    head = _between(draw, 0, heads - 1)
    query = length - 1 - (0 if one_input else _between(draw, 0, 1))
    readout = torch.randn(20, heads * width, generator=draw) / (heads * width) ** 0.5
    own = slice(head * width, (head + 1) * width)
    unread = functional.normalize(torch.randn(width, generator=draw), dim=0)
    if kind == "ignored_head":
        readout[:, own] = 0
    if kind == "decoy_unread":
        readout[:, own] -= (readout[:, own] @ unread)[:, None] * unread
    if kind == "backed_up":
        readout = torch.eye(width).repeat(1, 2)
    rest = Clamped() if kind == "backed_up" else _rest(seed, draw)
    model = Planted(heads, readout, logits=seed % 2 == 1 and kind != "backed_up", rest=rest)
    inputs = []
    for _ in range(1 if one_input else _between(draw, 6, 8)):
        weights = torch.rand(heads, length, length, generator=draw).softmax(-1)
        values = functional.normalize(torch.randn(length, heads, width, generator=draw), dim=-1) * 3
        row, own_values = _row(kind, query, values[:, head].clone(), (draw, unread))
        weights[head, query] = 0
        weights[head, query, : len(row)] = row
        if kind == "backed_up":
            values = values.sign()
            weights[1 - head, query] = weights[head, query]
            values[:, 1 - head] = values[:, head]
        else:
            values[:, head] = own_values
        scores = weights.log()
        seen = torch.ones(length, length).tril().bool()
        if kind == "one_key":
            seen[query] = False
            seen[query, query] = True
        scores = scores.clamp(min=-40).masked_fill(~seen, -torch.inf)[None]
        inputs.append((values.flatten(1)[None], scores))
    return Case(kind, seed, model, inputs, head, query, KINDS[kind])


def _between(draw, low, high):
    return int(torch.randint(low, high + 1, (1,), generator=draw))


def _spread(total, n, draw):
    """[n] weights that sum to total, none near 0 beside the others."""
    parts = torch.rand(n, generator=draw) + 0.3
    return total * parts / parts.sum()


def _uneven(n, draw):
    """[n] weights in a random order, the largest eight times the smallest."""
    row = 8 ** torch.linspace(0, 1, n)[torch.randperm(n, generator=draw)]
    return row / row.sum()


def _peak(at, weight, n, draw):
    row = _spread(1 - weight, n, draw)
    row[at] = 0
    row *= (1 - weight) / row.sum()
    row[at] = weight
    return row


def _row(kind, query, values, more):
    """Return weights [query + 1], and the values [T, d_v] of the head."""
    draw, unread = more
    n = query + 1
    heavy = 0.88 + 0.11 * float(torch.rand(1, generator=draw))
    decoy = 0.45 + 0.35 * float(torch.rand(1, generator=draw))
    at = _between(draw, 0, n - 1)
    graded = 0.62 ** torch.arange(n).float()[torch.randperm(n, generator=draw)]
    graded = graded / graded.sum()
    if kind == "identity":
        return _peak(query, heavy, n, draw), values
    if kind in ("previous_token", "ignored_head", "backed_up", "one_key"):
        return _peak(query - 1, heavy, n, draw), values
    if kind == "graded":
        return graded, values
    if kind == "uneven_values":
        return graded, values * 3 ** torch.rand(len(values), 1, generator=draw)
    if kind == "constant":
        return graded, values[:1].expand_as(values) * 1.0
    if kind == "local_window":
        row = torch.zeros(n)
        row[-3:] = _spread(1.0, 3, draw)
        return row, values
    if kind == "twins":
        first, second = torch.randperm(n, generator=draw)[:2].tolist()
        row = _spread(0.12, n, draw)
        row[[first, second]] = 0.44
        values[second] = values[first]
        return row / row.sum(), values
    if kind in ("decoy_of_zero_norm", "decoy_unread"):
        values[at] = 0 if kind == "decoy_of_zero_norm" else 4 * unread
        return _peak(at, decoy, n, draw), values
    if kind == "decoy_second":
        first, second = torch.randperm(n, generator=draw)[:2].tolist()
        row = _spread(0.2, n, draw)
        row[first], row[second] = 0.5, 0.3
        values[second] = 0
        return row / row.sum(), values
    if kind == "reversed":
        row = _uneven(n, draw)
        values[:n] *= ((row.min() / row) ** 3)[:, None]
        return row, values
    if kind == "uniform":
        return torch.full((n,), 1 / n), values
    if kind == "sink":
        values[0] = 0
        row = torch.full((n,), 1e-9)
        row[0] = 1.0
        return row, values
    assert kind == "unrelated"
    row = _uneven(n, draw)
    shares = 0.5 + torch.rand(n, generator=draw)
    values[:n] *= (shares * row.min() / row)[:, None]
    return row, values

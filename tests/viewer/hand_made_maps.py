"""Maps whose heads do one thing each, made by hand."""

import torch

TOKENS = ["<s>", " a", " b", " c", " d", " a", " b", " c", " d", " a"]
LENGTH = len(TOKENS)
CAUSAL = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
HEADS = ("previous token", "first token", "self", "induction", "same token", "uniform")


def on(keys):
    """A map that puts all weight of query i on key keys[i]."""
    return torch.eye(LENGTH)[torch.tensor(keys)]


def by_name(name):
    """[T, T]: the map of a head that does this and nothing else, where it can, and else looks at key 0."""
    places = range(LENGTH)
    if name == "previous token":
        return on([max(0, i - 1) for i in places])
    if name == "first token":
        return on([0] * LENGTH)
    if name == "self":
        return on(list(places))
    if name == "induction":  # the tokens repeat after 4
        return on([i - 3 if i >= 5 else 0 for i in places])
    if name == "same token":
        return on([i - 4 if i >= 5 else 0 for i in places])
    return CAUSAL / CAUSAL.sum(dim=-1, keepdim=True)


def one_layer():
    """[H, T, T]: a head for each name of ``HEADS``."""
    return torch.stack([by_name(name) for name in HEADS])


def random_maps(*shape, seed=0, causal=False):
    """Softmaxes of random scores."""
    scores = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    if causal:
        scores = scores.masked_fill(~torch.ones(shape[-2:], dtype=torch.bool).tril(), float("-inf"))
    return scores.softmax(dim=-1)

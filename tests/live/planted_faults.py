"""Faults, and what is none, planted in one layer of a Llama of transformers for the length of a block."""

from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch

from softlookup.masks import Mask, causal


@contextmanager
def mask_given(attention, make):
    """One layer of attention gets the mask that make(T) returns, bool or added to its scores."""
    as_it_is = attention.forward

    def forward(hidden_states, *args, **kwargs):
        kwargs["attention_mask"] = make(hidden_states.shape[1])
        return as_it_is(hidden_states, *args, **kwargs)

    attention.forward = forward
    try:
        yield
    finally:
        del attention.forward


def dropped(attention, head, real):
    return mask_given(attention, lambda T: torch.ones(len(real), 1, T, T, dtype=torch.bool))


def inverted(attention, head, real):
    return mask_given(attention, lambda T: ~_allowed(T, real))


def one_later_key(attention, head, real):
    return mask_given(attention, lambda T: _lower(T, 1) & real[:, None, None, :])


def padding_on_queries(attention, head, real):
    return mask_given(attention, lambda T: _lower(T) & real[:, None, :, None])


@contextmanager
def exploding(attention, head, real, factor=60.0):
    """The queries of one head are larger than they were."""
    rows = slice(head * attention.head_dim, (head + 1) * attention.head_dim)
    with kept(attention.q_proj.weight):
        attention.q_proj.weight.data[rows] *= factor
        yield


@contextmanager
def kept(parameter):
    """A parameter has its values again after the block."""
    before = parameter.detach().clone()
    try:
        yield
    finally:
        parameter.data.copy_(before)


def looking_at(attention, head, real, target):
    """One head puts all weight of query i on key target(i), among those that it may see."""

    def make(T):
        allowed = _allowed(T, real)
        heads = attention.config.num_attention_heads
        added = torch.zeros(len(real), heads, T, T).masked_fill(~allowed, -torch.inf)
        queries = torch.arange(T)
        for sample in range(len(real)):
            first, last = real[sample].nonzero()[[0, -1], 0]
            keys = torch.minimum(target(queries - first).clamp(min=0) + first, queries.clamp(max=last))
            added[sample, head, queries, keys] += 60.0
        return added

    return mask_given(attention, make)


def _lower(T, diagonal=0):
    return torch.ones(T, T, dtype=torch.bool).tril(diagonal)


def _allowed(T, real):
    return _lower(T) & real[:, None, None, :]


class Fault(NamedTuple):
    """plant(attention, head, real) for a block;  code: what has to be said;  of_head: whether of one head."""

    plant: object
    code: str
    of_head: bool = False


FAULTS = {
    "the mask is dropped": Fault(dropped, "SL901"),
    "the mask is inverted": Fault(inverted, "SL901"),
    "one later key is seen": Fault(one_later_key, "SL901"),
    "the padding mask hides queries": Fault(padding_on_queries, "SL901"),
    "scores of a head explode": Fault(exploding, "SL903", True),
    "a head sees only key 6": Fault(partial(looking_at, target=lambda i: i.clamp(max=6)), "SL904", True),
    "a head sees keys anywhere": Fault(partial(looking_at, target=lambda i: i * 7919 % 31), "SL904", True),
}

#: Heads that put all weight on one key for a reason: (query, counted from the first real token) -> key
FOR_A_REASON = {
    "a sink": lambda i: i * 0,
    "the token before": lambda i: i - 1,
    "the third token before": lambda i: i - 3,
    "itself": lambda i: i,
    "the token before, or a sink": lambda i: (i - 1) * (i % 8 > 0),
}


def rule_of(real):
    """Causal, and nobody sees padding."""
    return causal() & Mask.from_tensor(real[:, None, None, :])


def padding(batch, length, side):
    """Bool [B, T]: all but the first sample are padded."""
    real = torch.ones(batch, length, dtype=torch.bool)
    for sample in range(1, batch):
        pads = 2 + sample
        real[sample, slice(0, pads) if side == "left" else slice(length - pads, None)] = False
    return real

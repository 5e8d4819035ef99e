"""A rank that looks into its box while rank 0 empties it must not wait, as `get` does for a missing key."""

import torch
from torch import nn

from softlookup import watch
from softlookup.live import across_ranks


class Store:
    """As a TCPStore: `get` waits for a key. Rank 0 comes between the questions of the other rank."""

    def __init__(self):
        self.values, self.between = {}, lambda: None

    def check(self, keys):
        there = all(key in self.values for key in keys)
        between, self.between = self.between, lambda: None
        between()
        return there

    def get(self, key):
        assert key in self.values, "it would wait here"
        return self.values[key]

    def set(self, key, value):
        self.values[key] = value

    def delete_key(self, key):
        del self.values[key]


def exchange(trace, rank, store, monkeypatch):
    monkeypatch.setattr(across_ranks, "own_rank", lambda: rank)
    monkeypatch.setattr(across_ranks, "_own_store", lambda name: store)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    return across_ranks.Exchange(trace, every=1)


def test_a_box_that_is_emptied_while_it_is_looked_into_holds_nobody_up(monkeypatch, recwarn):
    layer, store = nn.MultiheadAttention(8, 2, batch_first=True), Store()
    x = torch.randn(1, 5, 8)
    with torch.no_grad(), watch(layer) as first, watch(layer) as second:
        for _ in range(3):
            layer(x, x, x)
    zero = exchange(first, 0, store, monkeypatch)
    one = exchange(second, 1, store, monkeypatch)
    for step, record in enumerate(second.records):
        one.take(record)
        store.between = lambda step=step: zero.end_step(step)  # right after the other rank has asked
        one.end_step(step)
    one.finish()
    zero.finish()
    assert not [it for it in recwarn if "not reduced" in str(it.message)]
    queries = sum(int(it.layers[""].queries.sum()) for it in first.across_ranks)
    assert queries == sum(int(it.statistics.queries.sum()) for it in second.records)  # nothing is lost

"""Two and four processes come to the answer of one.

Each number of processes is started once; every process works through ``SCENES`` and writes down what it got.
"""

import dataclasses
import doctest
import multiprocessing
import time
from datetime import timedelta

import pytest
import torch
from test_statistics_merge import (
    Lookup,
    a_lookup,
    assert_same_rows,
    assert_same_statistics,
    refusal,
    rows_of,
    statistics_of,
)

from softlookup.masks import causal, sliding_window
from softlookup.statistics import ring
from softlookup.statistics.distributed import gather_queries, merge_over_keys
from softlookup.statistics.observing import observe
from softlookup.statistics.ring import observe_ring
from softlookup.terms import SoftlookupError

WAIT_S = 120
START = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
SCENES = {}
RING_LENGTHS = (5, 3, 4, 6)  # tokens of each rank
MASK = causal() & sliding_window(7)


def scene(act):
    """Let every process do this; its answer, or the words of its refusal, are found under its name."""
    SCENES[act.__name__] = act
    return act


def samples_of_rank(rank, *, longer=0):
    return a_lookup(rank, (1 + rank % 2, 2, 5 + longer * rank, 5 + longer * rank))


@scene
def all_reduce(rank, world):
    return statistics_of(samples_of_rank(rank)).all_reduce()


@scene
def all_reduce_of_as_many_samples(rank, world):
    return statistics_of(a_lookup(rank, (2, 2, 3, 3))).all_reduce()


@scene
def all_reduce_of_steps(rank, world):
    mine = statistics_of(samples_of_rank(rank))
    return mine.merge_steps(mine).all_reduce()


@scene
def all_reduce_of_other_lengths(rank, world):
    return statistics_of(samples_of_rank(rank, longer=1)).all_reduce()


@scene
def all_reduce_where_the_last_lacks_a_field(rank, world):
    mine = statistics_of(samples_of_rank(rank))
    moments = {name: it for name, it in mine.moments.items() if name != "max_score" or rank < world - 1}
    return dataclasses.replace(mine, moments=moments).all_reduce()


@scene
def all_reduce_where_the_last_has_other_heads(rank, world):
    return statistics_of(a_lookup(rank, (1, 2 + rank // (world - 1), 3, 3))).all_reduce()


def whole():
    return a_lookup(100, (2, 2, 6, 9))


def bounds(rank, world, length):
    """Return the slice of this rank; the first of four gets nothing."""
    edges = [0, length] if world == 1 else {2: [0, 4, length], 4: [0, 0, 3, 4, length]}[world]
    return slice(edges[rank], edges[rank + 1])


def keys_of_rank(rank, world):
    cut = bounds(rank, world, 9)
    return statistics_of(whole().part(keys=cut), k_start=cut.start, k_total=9, keep_rows=True)


@scene
def merged_over_keys(rank, world):
    return merge_over_keys(keys_of_rank(rank, world))


@scene
def merged_over_keys_where_the_last_has_no_rows(rank, world):
    mine = keys_of_rank(rank, world)
    return merge_over_keys(dataclasses.replace(mine, rows=mine.rows if rank < world - 1 else None))


def queries_of_rank(rank, world):
    cut = bounds(rank, world, 6)
    return statistics_of(whole().part(queries=cut), q_start=cut.start, keep_rows=True)


@scene
def gathered_queries(rank, world):
    return gather_queries(queries_of_rank(rank, world))


@scene
def gathered_queries_where_the_first_has_no_rows(rank, world):
    mine = queries_of_rank(rank, world)
    return gather_queries(dataclasses.replace(mine, rows=mine.rows if rank else None))


def a_sequence(world):
    """q [B, H, T, d_head] and k, v [B, H_kv, T, d] of all ranks, and what the loss asks of the output."""
    draw = torch.Generator().manual_seed(7)
    T = sum(RING_LENGTHS[:world])
    shapes = ((2, 4, T, 8), (2, 2, T, 8), (2, 2, T, 6), (2, 4, T, 6))
    return [torch.randn(shape, generator=draw) for shape in shapes]


def shard(tensor, rank):
    start = sum(RING_LENGTHS[:rank])
    return tensor[..., start : start + RING_LENGTHS[rank], :].clone()


@scene
def ring_with_gradients(rank, world):
    *tensors, asked = a_sequence(world)
    q, k, v = (shard(it, rank).requires_grad_() for it in tensors)
    output, mine = observe_ring(q, k, v, MASK, enable_gqa=True)
    (output * shard(asked, rank)).sum().backward()
    return output.detach(), q.grad, k.grad, v.grad, gather_queries(mine)


@scene
def ring_without_gradients(rank, world):
    *tensors, _ = a_sequence(world)
    return observe_ring(*(shard(it, rank) for it in tensors), MASK, enable_gqa=True)[0]


@scene
def ring_where_the_last_has_keys_of_another_width(rank, world):
    q, k, v, _ = (shard(it, rank) for it in a_sequence(world))
    return observe_ring(q, k[..., : 8 - rank // (world - 1)], v, MASK, enable_gqa=True)


@scene
def ring_where_the_last_has_other_values(rank, world):
    q, k, v, _ = (shard(it, rank) for it in a_sequence(world))
    return observe_ring(q, k, v[..., : 6 - rank // (world - 1)], MASK, enable_gqa=True)


@scene
def all_reduce_of_a_group(rank, world):
    pair = torch.distributed.new_group([0, 1])
    return statistics_of(samples_of_rank(rank)).all_reduce(pair)


def work(rank, world, folder):
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo",
        store=torch.distributed.FileStore(str(folder / "store"), world),
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=WAIT_S / 2),
    )
    found = {}
    for name, act in SCENES.items():
        try:
            found[name] = act(rank, world)
        except SoftlookupError as error:
            found[name] = str(error)
    torch.save(found, folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module", params=[2, 4], ids=["two", "four"])
def ranks(request, tmp_path_factory):
    """Return, for each rank, its answers by scene."""
    world, folder = request.param, tmp_path_factory.mktemp(f"ranks{request.param}")
    multiprocessing.set_forkserver_preload(["torch", "hypothesis"])  # they are imported once, not by each
    started = torch.multiprocessing.start_processes(
        work, args=(world, folder), nprocs=world, join=False, start_method=START
    )
    until = time.monotonic() + WAIT_S
    try:
        while not started.join(timeout=1):
            assert time.monotonic() < until, f"{world} processes are not done after {WAIT_S} s"
    finally:
        for process in started.processes:
            process.kill()
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(world)]


def assert_same_bits(ranks, name):
    """Every rank ends with the same numbers, to the last bit."""
    first = ranks[0][name]
    for rank in ranks[1:]:
        assert_same_statistics(rank[name], first, within=0.0)
        if first.rows is not None:
            assert_same_rows(rank[name].rows, first.rows, within=0.0)
        if first.pooled is not None:
            assert torch.equal(rank[name].pooled.sums, first.pooled.sums)


def refusals(ranks, name):
    """Return the words in which all ranks refused alike."""
    words = {rank[name] for rank in ranks}
    assert len(words) == 1
    return words.pop()


def test_all_reduce_gives_the_statistics_of_all_samples_on_every_rank(ranks):
    lookups = [samples_of_rank(rank) for rank in range(len(ranks))]
    parts = zip(*((it.scores, it.visible, it.forbidden) for it in lookups), strict=True)
    expected = statistics_of(Lookup(*map(torch.cat, parts))).over_batch()
    assert_same_statistics(ranks[0]["all_reduce"], expected)
    assert ranks[0]["all_reduce"].steps == 1
    assert_same_bits(ranks, "all_reduce")


def test_samples_are_taken_together_also_where_every_rank_has_as_many(ranks):
    assert ranks[0]["all_reduce_of_as_many_samples"].queries.tolist() == [[6 * len(ranks)] * 2]


def test_all_reduce_of_two_equal_steps_changes_no_mean(ranks):
    once, twice = ranks[0]["all_reduce"], ranks[0]["all_reduce_of_steps"]
    torch.testing.assert_close(twice.entropy_nats, once.entropy_nats)
    torch.testing.assert_close(twice.pooled.mean, once.pooled.mean)
    assert torch.equal(twice.queries, 2 * once.queries)
    assert twice.steps == 2


def test_ranks_with_other_lengths_are_reduced_without_a_map(ranks):
    found = ranks[0]["all_reduce_of_other_lengths"]
    assert found.pooled is None
    queries = sum((1 + rank % 2) * (5 + rank) for rank in range(len(ranks)))
    assert found.queries.tolist() == [[queries, queries]]
    assert_same_bits(ranks, "all_reduce_of_other_lengths")


def test_a_rank_without_a_field_is_refused_on_all_ranks(ranks):
    words = refusals(ranks, "all_reduce_where_the_last_lacks_a_field")
    assert "the same statistics" in words
    assert "max_score" in words


def test_a_rank_with_other_heads_is_refused_on_all_ranks(ranks):
    assert "samples and heads" in refusals(ranks, "all_reduce_where_the_last_has_other_heads")


def test_shards_of_keys_merge_over_the_ranks_into_all_keys(ranks):
    found = ranks[0]["merged_over_keys"]
    assert_same_statistics(found, statistics_of(whole()))
    assert_same_rows(found.rows, rows_of(whole()))
    assert_same_bits(ranks, "merged_over_keys")


def test_a_rank_without_rows_is_named_on_all_ranks(ranks):
    words = refusals(ranks, "merged_over_keys_where_the_last_has_no_rows")
    assert f"none on rank {len(ranks) - 1}" in words
    assert "per_query=True" in words


def test_shards_of_queries_are_gathered_into_all_queries(ranks):
    found = ranks[0]["gathered_queries"]
    assert_same_rows(found.rows, rows_of(whole()))
    assert sum(found.pooled.query_widths) == 6
    without_map = (dataclasses.replace(it, pooled=None) for it in (found, statistics_of(whole())))
    assert_same_statistics(*without_map)
    assert_same_bits(ranks, "gathered_queries")


def test_queries_are_gathered_without_rows_where_a_rank_has_none(ranks):
    found = ranks[0]["gathered_queries_where_the_first_has_no_rows"]
    assert found.rows is None
    torch.testing.assert_close(found.entropy_nats, statistics_of(whole()).entropy_nats)
    assert_same_bits(ranks, "gathered_queries_where_the_first_has_no_rows")


def in_one_process(world):
    *tensors, asked = a_sequence(world)
    q, k, v = (it.requires_grad_() for it in tensors)
    output, statistics = observe(q, k, v, MASK, enable_gqa=True, per_query=True)
    (output * asked).sum().backward()
    return output.detach(), q.grad, k.grad, v.grad, statistics


def test_a_ring_gives_each_rank_its_part_of_the_output_and_of_the_gradients(ranks):
    *expected, _ = in_one_process(len(ranks))
    for rank, found in enumerate(ranks):
        for name, ours, theirs in zip(
            ("output", "q", "k", "v"), found["ring_with_gradients"], expected, strict=False
        ):
            torch.testing.assert_close(
                ours, shard(theirs, rank), rtol=1e-5, atol=1e-5, msg=f"{name} of {rank}"
            )
        torch.testing.assert_close(
            found["ring_without_gradients"], found["ring_with_gradients"][0], rtol=1e-6, atol=1e-6
        )


def test_the_statistics_of_a_ring_are_those_of_one_process(ranks):
    found, expected = ranks[0]["ring_with_gradients"][-1], in_one_process(len(ranks))[-1]
    assert_same_rows(found.rows, expected.rows, within=1e-5)
    first = ranks[0]["ring_with_gradients"][-1]
    for rank in ranks[1:]:
        assert_same_statistics(rank["ring_with_gradients"][-1], first, within=0.0)
    torch.testing.assert_close(found.pooled.sums.sum(-2), expected.pooled.sums.sum(-2))
    assert found.pooled.key_widths == expected.pooled.key_widths
    assert sum(found.pooled.query_widths) == sum(RING_LENGTHS[: len(ranks)])


def test_a_ring_with_tensors_that_do_not_fit_is_refused_on_all_ranks(ranks):
    last = len(ranks) - 1
    words = refusals(ranks, "ring_where_the_last_has_keys_of_another_width")
    assert f"rank {last} cannot take part" in words
    words = refusals(ranks, "ring_where_the_last_has_other_values")
    assert "differ in length only" in words
    assert f"on rank {last}" in words


def test_a_process_outside_the_group_is_refused_without_waiting(ranks):
    inside = [rank["all_reduce_of_a_group"] for rank in ranks[:2]]
    assert_same_statistics(inside[0], inside[1], within=0.0)
    for rank in ranks[2:]:
        assert "does not belong to the group" in rank["all_reduce_of_a_group"]


def test_without_other_processes_there_is_nothing_to_reduce():
    words = refusal(statistics_of(a_lookup(0, (1, 1, 2, 2))).all_reduce)
    assert "init_process_group" in words


def test_the_example_runs():
    assert doctest.testmod(ring).failed == 0

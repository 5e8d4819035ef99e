"""Watched training on several processes: nothing changes, numbers are those of one process, nobody waits.

Two processes are started once and work through ``SCENES``; two more are started for one that is killed.
"""

import multiprocessing
import os
import signal
import time
import warnings
from contextlib import ExitStack, nullcontext
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch import nn
from watched_models import Fused, Small

from softlookup.live.across_ranks import Exchange, all_reduce
from softlookup.live.heads_by_rank import Share
from softlookup.live.history import merge_all
from softlookup.live.watching import watch
from softlookup.terms import SoftlookupError

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (dist.is_available() and dist.is_gloo_available()), reason="torch was built without gloo"
    ),
]

WAIT_S = 120  # after which processes that still wait for each other are killed, and the test fails
START = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
WORLD, STEPS, SAMPLES, T = 2, 4, 2, 9
SCENES = {}


def scene(act):
    """Let every process do this; its answer, or the words of its refusal, are found under its name."""
    SCENES[act.__name__] = act
    return act


def small():
    torch.manual_seed(0)
    return Small(Fused)


def ids_of(rank, step=0):
    return torch.randint(50, (SAMPLES, T), generator=torch.Generator().manual_seed(100 * step + rank))


def joined(step=0):
    return torch.cat([ids_of(rank, step) for rank in range(WORLD)])


def train(model, ids_of_step, steps=STEPS):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        model(ids_of_step(step)).square().mean().backward()
        optimizer.step()


def under_ddp():
    return nn.parallel.DistributedDataParallel(small())


def under_fsdp2():
    from torch.distributed.fsdp import fully_shard

    model = small()
    mesh = dist.init_device_mesh("cpu", (WORLD,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def local(tensor):
    return (tensor.to_local() if hasattr(tensor, "to_local") else tensor).detach().clone()


def trained(build, rank, watched):
    """Parameters and gradients after a training, and what all ranks saw in it."""
    model, reduced = build(), None
    with ExitStack() as stack:
        trace = stack.enter_context(watch(model, queries=None, reduce_every=2)) if watched else None
        train(model, lambda step: ids_of(rank, step))
    if trace is not None:
        reduced = all_reduce(trace)
    return [(local(it), local(it.grad)) for it in model.parameters()], reduced


@scene
def ddp_alone(rank):
    return trained(under_ddp, rank, watched=False)


@scene
def ddp_watched(rank):
    return trained(under_ddp, rank, watched=True)


@scene
def fsdp2_alone(rank):
    return trained(under_fsdp2, rank, watched=False)


@scene
def fsdp2_watched(rank):
    return trained(under_fsdp2, rank, watched=True)


def watched_steps(rank, has_step, *, ends_after=None, **options):
    """Step through a model; rank 1 leaves its watch first, so that rank 0 finds in the end what it left."""
    model = small()
    with ExitStack() as stack:
        trace = stack.enter_context(watch(model, queries=None, **{"reduce_every": 2, **options}))
        for step in range(STEPS if ends_after is None or rank == 0 else ends_after):
            if has_step(step):
                model(ids_of(rank, step)).mean().backward()
            trace.step()
        if rank:
            stack.close()
        dist.barrier()
    return trace


def what_was_told(trace):
    return list(trace.across_ranks), all_reduce(trace)


@scene
def all_steps(rank):
    return what_was_told(watched_steps(rank, lambda step: True))


@scene
def the_last_skips_steps(rank):
    return what_was_told(watched_steps(rank, lambda step: rank == 0 or step == 2))


@scene
def the_last_ends_early(rank):
    return what_was_told(watched_steps(rank, lambda step: True, ends_after=1))


@scene
def the_last_measures_nothing(rank):
    return what_was_told(watched_steps(rank, lambda step: rank == 0))


@scene
def the_first_measures_nothing(rank):
    return what_was_told(watched_steps(rank, lambda step: rank == 1))


@scene
def one_measures_fewer_heads(rank):
    heads = [0] if rank else None
    trace = watched_steps(rank, lambda step: True, heads=heads, reduce_every=100)  # once, in the end
    found = trace.across_ranks
    try:
        return list(found), all_reduce(trace)
    except SoftlookupError as error:
        return list(found), str(error)


@scene
def the_first_never_looks(rank):
    """Rank 1 goes on alone: what it leaves takes no more room than two boxes."""
    model = small()
    exchanges = []
    with watch(model, queries=None) as trace:
        exchange = Exchange(trace, 1)
        exchanges.append(exchange)
        for step in range(6 if rank else 0):
            model(ids_of(rank, step))
            exchange.take(trace.records[-1])
            exchange.end_step(step)
        exchange.finish()
    dist.barrier()
    keys = dist.distributed_c10d._get_default_store().num_keys()
    dist.barrier()
    exchange.finish()  # now rank 0 looks
    return keys, list(trace.across_ranks)


class Projected(nn.Module):
    """Attention with a projection each, and as many heads as these have."""

    def __init__(self, names=("q_proj", "k_proj", "v_proj"), width=32, d_head=8):
        super().__init__()
        self.names, self.d_head = names, d_head
        for name in (*names, "o_proj"):
            setattr(self, name, nn.Linear(width, width))

    def forward(self, x):
        q, k, v = (
            getattr(self, name)(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2) for name in self.names
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


def projected(*names):
    torch.manual_seed(0)
    return nn.Sequential(Projected(*names))


def tokens():
    return torch.randn(SAMPLES, T, 32, generator=torch.Generator().manual_seed(5))


def tensor_parallel(*names, columns, rows, mesh=None):
    from torch.distributed.tensor.parallel import parallelize_module

    model = projected(*names)
    styles = dict.fromkeys(model[0].names, columns) | {"o_proj": rows}
    mesh = mesh or dist.init_device_mesh("cpu", (WORLD,))
    return parallelize_module(model, mesh, {f"0.{name}": style for name, style in styles.items()})


def reduced_of(model, steps=1):
    with watch(model, queries=None) as trace:
        for _ in range(steps):
            model(tokens()).mean().backward()
    return trace.shares, all_reduce(trace)


@scene
def tensor_parallel_gradients(rank):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    found = []
    for watched in (False, True):
        model = tensor_parallel(columns=ColwiseParallel(), rows=RowwiseParallel())
        with watch(model) if watched else nullcontext():
            output = model(tokens())
            output.square().mean().backward()
        found.append([output.detach(), *(local(it.grad) for it in model.parameters())])
    return found


@scene
def tensor_parallel_heads(rank):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    return reduced_of(tensor_parallel(columns=ColwiseParallel(), rows=RowwiseParallel()))


@scene
def tensor_parallel_heads_of_one_rank(rank):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    model = tensor_parallel(columns=ColwiseParallel(), rows=RowwiseParallel())
    with watch(model, queries=None) as trace:
        model(tokens())
    alone = [dist.new_group([it]) for it in range(WORLD)]
    return all_reduce(trace, alone[rank])


@scene
def tensor_parallel_heads_under_fsdp2(rank):
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    mesh = dist.init_device_mesh("cpu", (1, WORLD), mesh_dim_names=("data", "heads"))
    model = tensor_parallel(columns=ColwiseParallel(), rows=RowwiseParallel(), mesh=mesh["heads"])
    for layer in model[0].children():  # so that weights are sharded again when attention is computed
        fully_shard(layer, mesh=mesh["data"])
    fully_shard(model[0], mesh=mesh["data"])
    return reduced_of(model)


@scene
def tensor_parallel_with_all_heads_gathered(rank):
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    gathered = ColwiseParallel(output_layouts=Replicate())
    return reduced_of(tensor_parallel(columns=gathered, rows=RowwiseParallel(input_layouts=Replicate())))


@scene
def tensor_parallel_under_other_names(rank):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    return reduced_of(
        tensor_parallel(("one", "two", "three"), columns=ColwiseParallel(), rows=RowwiseParallel())
    )


@scene
def fsdp2_of_every_projection(rank):
    from torch.distributed.fsdp import fully_shard

    model = projected()
    mesh = dist.init_device_mesh("cpu", (WORLD,))
    for layer in (*model[0].children(), model[0]):  # weights are sharded again when attention is computed
        fully_shard(layer, mesh=mesh)
    return reduced_of(model)


def begin(rank, store):
    torch.set_num_threads(1)
    limit = timedelta(seconds=WAIT_S / 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORLD, timeout=limit)


def work(rank, folder, port):
    begin(rank, dist.TCPStore("127.0.0.1", port, WORLD, is_master=False))
    found = {}
    for name, act in SCENES.items():
        try:
            found[name] = act(rank)
        except SoftlookupError as error:
            found[name] = str(error)
        dist.barrier()
    torch.save(found, folder / f"{rank}.pt")
    dist.destroy_process_group()


def until_killed(rank, folder):
    """Step through a model on both ranks; the last kills itself in the middle."""
    begin(rank, dist.FileStore(str(folder / "store"), WORLD))
    model = small()
    with watch(model, queries=None, reduce_every=1) as trace:
        for step in range(3 if rank else STEPS):
            model(ids_of(rank, step))
            trace.step()
        if rank:
            (folder / "gone").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        while not (folder / "gone").exists():
            time.sleep(0.01)
        model(ids_of(rank, STEPS))
        trace.step()
    torch.save((trace.steps, list(trace.across_ranks)), folder / "0.pt")
    os._exit(0)


def started(target, *args):
    multiprocessing.set_forkserver_preload(["torch", "torch.distributed.fsdp", "watched_models"])
    context = multiprocessing.get_context(START)
    processes = [context.Process(target=target, args=(rank, *args), daemon=True) for rank in range(WORLD)]
    for process in processes:
        process.start()
    return processes


def end_of(processes):
    """Wait for all of them; who is not done in time is killed."""
    until = time.monotonic() + WAIT_S
    try:
        for process in processes:
            process.join(max(0.0, until - time.monotonic()))
        assert not any(it.is_alive() for it in processes), f"processes still wait after {WAIT_S} s"
    finally:
        for process in processes:
            process.kill()
    return [it.exitcode for it in processes]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """Return, for each rank, its answers by scene."""
    folder = tmp_path_factory.mktemp("ranks")
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # as torchrun holds one
    assert end_of(started(work, folder, store.port)) == [0] * WORLD
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(WORLD)]


def assert_same(found, expected, within=1e-6):
    """Statistics by layer are the same."""
    assert list(found) == list(expected)
    for layer, ours in found.items():
        theirs = expected[layer]
        assert ours.moments.keys() == theirs.moments.keys()
        assert ours.steps == theirs.steps
        for name, count in theirs.counts.items():
            assert torch.equal(ours.counts[name], count), name
        for name, moments in theirs.moments.items():
            for part in ("count", "mean", "m2", "low", "high"):
                torch.testing.assert_close(
                    getattr(ours.moments[name], part),
                    getattr(moments, part),
                    rtol=within,
                    atol=within,
                    equal_nan=True,
                    msg=lambda words, what=(layer, name, part): f"{what}: {words}",
                )


def in_one_process(batches):
    """What a watch sees of all these batches of ids."""
    model = small()
    with watch(model, queries=None) as trace:
        for ids in batches:
            model(ids)
    return trace.layers


def whole(told):
    """All that came over the steps, layer by layer."""
    layers = dict.fromkeys(layer for it in told for layer in it.layers)
    return {layer: merge_all([it.layers[layer] for it in told if layer in it.layers]) for layer in layers}


def queries_of(statistics):
    return {layer: it.queries.flatten().tolist() for layer, it in statistics.items()}


@pytest.mark.parametrize("way", ["ddp", "fsdp2"])
def test_a_watch_changes_no_bit_of_parameters_and_gradients(ranks, way):
    for rank in ranks:
        alone, watched = rank[f"{way}_alone"][0], rank[f"{way}_watched"][0]
        assert len(alone) == len(watched) > 0
        for (parameter, gradient), (with_watch, its_gradient) in zip(alone, watched, strict=True):
            assert torch.equal(parameter, with_watch)
            assert torch.equal(gradient, its_gradient)
            assert gradient.abs().sum() > 0 or gradient.numel() == 0


def test_a_watch_changes_no_bit_under_tensor_parallelism(ranks):
    for rank in ranks:
        for alone, watched in zip(*rank["tensor_parallel_gradients"], strict=True):
            assert torch.equal(alone, watched)


@pytest.mark.parametrize("way", ["ddp", "fsdp2"])
def test_the_ranks_of_a_training_saw_what_one_process_sees_of_the_joined_batch(ranks, way):
    model = small()
    with watch(model, queries=None) as trace:
        train(model, joined)
    prefix = "module." if way == "ddp" else ""
    expected = {prefix + layer: it for layer, it in trace.layers.items()}
    for rank in ranks:
        assert_same(rank[f"{way}_watched"][1], expected)
    assert_same(ranks[0][f"{way}_watched"][1], ranks[1][f"{way}_watched"][1], within=0.0)


def test_all_that_was_left_in_the_store_is_what_one_process_sees(ranks):
    told, reduced = ranks[0]["all_steps"]
    expected = in_one_process(joined(step) for step in range(STEPS))
    assert_same(reduced, expected)
    assert queries_of(whole(told)) == queries_of(expected)
    torch.testing.assert_close(whole(told)["blocks.1"].entropy_nats, expected["blocks.1"].entropy_nats)
    assert len(told) <= STEPS // 2 + 1
    assert {it.of for it in told} == {WORLD}


def test_other_ranks_get_nothing_out_of_the_store(ranks):
    assert ranks[1]["all_steps"][0] == []


@pytest.mark.parametrize(
    ("name", "steps_of"),
    [
        ("the_last_skips_steps", {0: range(STEPS), 1: [2]}),
        ("the_last_ends_early", {0: range(STEPS), 1: [0]}),
        ("the_last_measures_nothing", {0: range(STEPS), 1: []}),
        ("the_first_measures_nothing", {0: [], 1: range(STEPS)}),
    ],
)
def test_a_rank_with_fewer_steps_holds_nobody_up_and_counts_as_far_as_it_came(ranks, name, steps_of):
    batches = [ids_of(rank, step) for rank, steps in steps_of.items() for step in steps]
    expected = in_one_process(batches)
    (told, reduced), (_, elsewhere) = ranks[0][name], ranks[1][name]
    assert {rank for it in told for rank in it.ranks} == {rank for rank, it in steps_of.items() if len(it)}
    for found in (reduced, elsewhere, whole(told)):
        assert queries_of(found) == queries_of(expected)
        for layer, statistics in found.items():
            torch.testing.assert_close(statistics.entropy_nats, expected[layer].entropy_nats)
            torch.testing.assert_close(statistics.max_score, expected[layer].max_score)
    assert {it.steps for it in reduced.values()} == {STEPS}


def test_ranks_that_measure_other_heads_are_left_out_in_words_and_refused_on_all_alike(ranks):
    told, words = ranks[0]["one_measures_fewer_heads"]
    assert [it.ranks for it in told] == [(0, 1)]
    assert told[0].layers == {}
    assert told[0].left_out == dict.fromkeys(("blocks.0", "blocks.1"), "ranks measured 1 and 4 heads of it")
    assert "all_reduce: what the ranks measured of blocks.0" in words
    assert words == ranks[1]["one_measures_fewer_heads"][1]


def test_what_nobody_reads_takes_two_keys_and_is_not_lost(ranks):
    (before, _), (keys, _) = ranks[0]["the_first_never_looks"], ranks[1]["the_first_never_looks"]
    told = ranks[0]["the_first_never_looks"][1]
    assert before == keys
    assert [it.ranks for it in told] == [(1,)]
    assert told[0].layers["blocks.1"].queries.tolist() == [[6 * SAMPLES * T] * 4]


def in_one_process_of(model):
    with watch(model, queries=None) as trace:
        model(tokens())
    return trace.layers


@pytest.mark.parametrize("name", ["tensor_parallel_heads", "tensor_parallel_heads_under_fsdp2"])
def test_heads_of_tensor_parallel_ranks_stand_side_by_side(ranks, name):
    expected = in_one_process_of(projected())
    for rank, found in enumerate(ranks):
        shares, reduced = found[name]
        assert shares == {"0": Share(rank, WORLD)}
        assert_same(reduced, expected)


def test_heads_of_ranks_outside_the_group_have_no_queries(ranks):
    expected = in_one_process_of(projected())["0"]
    for rank, found in enumerate(ranks):
        own = slice(2 * rank, 2 * rank + 2)
        statistics = found["tensor_parallel_heads_of_one_rank"]["0"]
        queries = torch.zeros(1, 4, dtype=torch.long)
        queries[:, own] = SAMPLES * T
        assert torch.equal(statistics.queries, queries)
        torch.testing.assert_close(
            statistics.entropy_nats[:, own], expected.entropy_nats[:, own], rtol=1e-6, atol=1e-6
        )
        assert statistics.entropy_nats.isnan().sum() == 2


@pytest.mark.parametrize("name", ["tensor_parallel_with_all_heads_gathered", "fsdp2_of_every_projection"])
def test_sharded_weights_alone_do_not_split_the_heads(ranks, name):
    expected = in_one_process_of(projected())["0"]
    for found in ranks:
        shares, reduced = found[name]
        assert shares == {"0": Share()}
        torch.testing.assert_close(reduced["0"].entropy_nats, expected.entropy_nats, rtol=1e-6, atol=1e-6)


def test_heads_of_which_nobody_can_tell_are_refused(ranks):
    for found in ranks:
        assert "none is called a projection of queries" in found["tensor_parallel_under_other_names"]


def test_a_rank_that_is_killed_holds_nobody_up(tmp_path):
    codes = end_of(started(until_killed, tmp_path))
    assert codes == [0, -signal.SIGKILL]
    steps, told = torch.load(tmp_path / "0.pt", weights_only=False)
    assert steps == STEPS + 2  # one has begun by the last trace.step()
    assert {rank for it in told for rank in it.ranks} == {0, 1}
    queries = whole(told)["blocks.0"].queries[0, 0]
    assert (STEPS + 2) * SAMPLES * T <= queries <= (STEPS + 4) * SAMPLES * T


def test_without_other_processes_there_is_nothing_to_reduce():
    with watch(small()) as trace:
        pass
    with pytest.raises(SoftlookupError, match="init_process_group"):
        all_reduce(trace)
    with pytest.raises(SoftlookupError, match="init_process_group"), watch(small(), reduce_every=4):
        pass


@pytest.mark.parametrize("number", [0, -1, 2.0, True])
def test_a_number_of_steps_that_is_none_is_refused(number):
    with pytest.raises(SoftlookupError, match="reduce_every"), watch(small(), reduce_every=number):
        pass


@pytest.fixture
def alone():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_one_process_alone_gets_its_own_numbers(alone):
    model = small()
    with watch(model, queries=None, reduce_every=2) as trace:
        for step in range(5):
            model(ids_of(0, step))
    assert [it.step for it in trace.across_ranks] == [1, 3, 4]
    assert queries_of(whole(trace.across_ranks)) == queries_of(trace.layers)
    assert all_reduce(trace).keys() == trace.layers.keys()


def test_a_store_that_is_gone_is_told_once_and_ends_nothing(alone, monkeypatch):
    def gone(self, keys):
        raise RuntimeError("the store is gone")

    monkeypatch.setattr(dist, "get_world_size", lambda group=None: 2)
    model = small()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with watch(model, reduce_every=1) as trace:
            monkeypatch.setattr(dist.PrefixStore, "check", gone)
            for step in range(3):
                model(ids_of(0, step))
    assert [str(it.message) for it in told if "softlookup" in str(it.message)] == [
        "softlookup: ranks are not reduced any more: RuntimeError: the store is gone"
    ]
    assert trace.coverage == "2 of 2 attention layers seen, 6 calls measured"


def test_a_process_group_without_a_store_is_refused_in_words(alone, monkeypatch):
    monkeypatch.delattr(dist.distributed_c10d, "_get_default_store")
    with pytest.raises(SoftlookupError, match="reduce_every needs the store"), watch(small(), reduce_every=1):
        pass

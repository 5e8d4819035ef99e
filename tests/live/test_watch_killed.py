"""A watched training that is killed leaves a trace that opens, and holds every step but the last."""

import multiprocessing
import random
import signal
import time

import pytest
import torch
from watched_models import Fused, Small

from softlookup.live.stored import read_trace
from softlookup.live.watching import watch

START = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
WAIT_S = 60
LAYERS = ["blocks.0", "blocks.1"]

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL"),
]


def train_for_ever(folder, told, *, by_user):
    """Write a byte for each step of the optimizer that is over."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Small(Fused)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with told.open("ab", buffering=0) as file, watch(model, save_to=folder) as trace:
        while True:
            optimizer.zero_grad()
            model(torch.randint(50, (2, 9))).square().mean().backward()
            optimizer.step()
            if by_user:
                trace.step()
            file.write(b".")


@pytest.mark.parametrize("by_user", [True, False], ids=["steps of the user", "steps by forwards"])
@pytest.mark.parametrize("turn", range(4))
def test_a_training_that_is_killed_leaves_all_steps_but_the_last(tmp_path, by_user, turn):
    folder, told = tmp_path / "trace", tmp_path / "told"
    told.touch()
    multiprocessing.set_forkserver_preload(["torch", "watched_models", "softlookup.live.watching"])
    process = multiprocessing.get_context(START).Process(
        target=train_for_ever, args=(folder, told), kwargs={"by_user": by_user}, daemon=True
    )
    process.start()
    try:
        until = time.monotonic() + WAIT_S
        while told.stat().st_size < 2:
            assert process.is_alive()
            assert time.monotonic() < until, f"no two steps in {WAIT_S} s"
            time.sleep(0.001)
        time.sleep(random.Random(turn).uniform(0, 0.3))
    finally:
        process.kill()
        process.join(WAIT_S)
    assert process.exitcode == -signal.SIGKILL

    steps, found = told.stat().st_size, read_trace(folder)
    # A step by the user is saved before `step` returns; one by forwards when the next forward begins.
    assert steps - (not by_user) <= found.steps <= steps + 1
    assert [it.call.step for it in found.records] == [step for step in range(found.steps) for _ in LAYERS]
    assert [it.call.layer for it in found.records] == LAYERS * found.steps
    assert all(it.statistics.entropy_nats.isfinite().all() for it in found.records)
    assert found.damaged == ()

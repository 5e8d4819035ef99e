"""How much memory does one call need beside its inputs? Each way runs in a process of its own.

    python benchmarks/memory_of.py observe 16384 8      prints JSON: seconds, and the peak of the call in MiB

The peak is the largest resident memory while the call runs, less what was there before: torch, the inputs,
and what a call over 256 tokens had loaded. On Linux it is VmHWM, which starts afresh in a new process, where
ru_maxrss still holds the memory of the parent that started it.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import problems
import torch
from problems import Problem


def with_weights(problem: Problem) -> Any:
    """Eager attention, which keeps the weights, without a mask tensor of the size of the scores per head."""
    tokens = problem.q.shape[-2]
    scores = problem.q @ problem.k.transpose(-2, -1) / math.sqrt(problem.q.shape[-1])
    hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu_(1)
    weights = scores.masked_fill_(hidden, -math.inf).softmax(dim=-1)
    return weights @ problem.v, weights


def with_sdpa(problem: Problem) -> Any:
    """PyTorch's fused kernel, no statistics."""
    return torch.nn.functional.scaled_dot_product_attention(problem.q, problem.k, problem.v, is_causal=True)


def with_attend(problem: Problem) -> Any:
    """Softlookup's fused call, no statistics."""
    from softlookup.fused import attend

    return attend(problem.q, problem.k, problem.v, problem.mask)


def observing(**options: Any) -> Callable[[Problem], Any]:
    """Softlookup with statistics."""

    def call(problem: Problem) -> Any:
        from softlookup.statistics.observing import observe

        return observe(problem.q, problem.k, problem.v, problem.mask, **options)

    return call


WAYS: dict[str, Callable[[Problem], Any]] = {
    "SDPA": with_sdpa,
    "attend": with_attend,
    "observe": observing(),
    "observe, exact max": observing(exact_max=True),
    "observe, map 256": observing(pooled=(256, 256)),
    "with weights": with_weights,
}


def resident(name: str) -> float:
    """Return VmRSS or VmHWM of this process in MiB."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) / 1024


def forget_peak() -> None:
    """Let VmHWM start again from what is resident now; where that is not allowed, peaks read higher."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def measure(way: str, tokens: int, heads: int) -> dict[str, float]:
    """Return seconds and MiB of one causal call, in this process."""
    with torch.no_grad():
        WAYS[way](problems.problem(problems.causal(256), 256, heads=heads))
        problem = problems.problem(problems.causal(tokens), tokens, heads=heads)
        forget_peak()
        before = resident("VmRSS")
        start = time.perf_counter()
        WAYS[way](problem)
        seconds = time.perf_counter() - start
    after = resident("VmHWM")
    return {"seconds": round(seconds, 2), "peak_mib": round(after - before, 1), "process_mib": round(after)}


def measured_apart(way: str, tokens: int, heads: int, threads: int) -> dict[str, float]:
    """Return the same from a fresh process."""
    command = [sys.executable, "-W", "ignore", __file__, way, str(tokens), str(heads), str(threads)]
    told: dict[str, float] = json.loads(subprocess.check_output(command, text=True))
    return told


if __name__ == "__main__":
    if sys.argv[4:]:
        torch.set_num_threads(int(sys.argv[4]))
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))

"""Several ways to do one thing, timed in turns: a machine that is busy for a while is busy for all of them.

Each round times every way once; every second round in the opposite order. What counts is the ratio of two
times of the same round; of these the median and the quartiles are kept.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"
Ways = dict[str, Callable[[], Any]]


def seconds_in_turns(ways: Ways, rounds: int, *, at_least: float = 0.05) -> dict[str, list[float]]:
    """Return the seconds of one call of each way, a number for each round.

    at_least: a call that takes less is repeated until so many seconds have passed, and the mean is taken

    What is called must wait for its own result: see ``gpu.py``.
    """
    repeats = {}
    for name, call in ways.items():
        repeats[name] = 1
        if _seconds(call) < 1.0:  # the first call is not counted: memory is fetched, kernels are chosen
            repeats[name] = max(1, round(at_least / max(_seconds(call), 1e-6)))
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        for name in ways if number % 2 == 0 else reversed(ways):
            seconds[name].append(_seconds(ways[name], repeats[name]))
    return seconds


def _seconds(call: Callable[[], Any], repeats: int = 1) -> float:
    """Return the mean time of some calls."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def spread(numbers: list[float], digits: int = 4) -> dict[str, float]:
    """Return median and quartiles."""
    low, middle, high = statistics.quantiles(numbers, n=4, method="inclusive") if numbers[1:] else numbers * 3
    return {"median": round(middle, digits), "low": round(low, digits), "high": round(high, digits)}


def ratios(seconds: dict[str, list[float]], of: str, to: str) -> dict[str, float]:
    """Return how often ``to`` fits into ``of``: the spread of the ratio over the rounds."""
    return spread([a / b for a, b in zip(seconds[of], seconds[to], strict=True)])


def machine() -> dict[str, Any]:
    """Return on what is measured, and how busy it is before."""
    return {
        "cpu": _cpu_name(),
        "cpus": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _cpu_name() -> str:
    """Name the processor; model numbers too, since several are called by one name."""
    try:
        told = subprocess.check_output(["lscpu"], text=True, env={**os.environ, "LC_ALL": "C"})
    except (OSError, subprocess.CalledProcessError):
        return platform.processor() or platform.machine()
    lines = dict(line.split(":", 1) for line in told.splitlines() if ":" in line)
    name, family, model = (lines.get(key, "?").strip() for key in ("Model name", "CPU family", "Model"))
    return f"{name}, family {family}, model {model}"


def write(result: dict[str, Any], path: Path) -> Path:
    """Write a result as JSON, and return where it lies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return path


def line_of(facts: dict[str, Any]) -> str:
    """Return the facts of a machine in one line."""
    return ", ".join(f"{name}: {value}" for name, value in facts.items())

"""What does it cost to convert or identify a large mask? Beside one pass of mask.any(-1) over it, in turns.

    python benchmarks/mask_time.py      writes benchmarks/results/mask_time.json

The mask is bool [32, 1, 4096, 4096], 512 MiB. A float copy of it would take 2 GiB: the largest growth of the
process during a call is measured too, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch
import turns

from softlookup import convert, identify
from softlookup.masks import causal, padding

SHAPE = (32, 1, 4096, 4096)
PASS = "mask.any(-1)"
TARGETS = (
    "F.scaled_dot_product_attention",
    "blocked_mask",
    "nn.MultiheadAttention",
    "jax.nn.dot_product_attention",
    "transformers sdpa",
    "flash_attn varlen",
)


def masks() -> dict[str, Callable[[], torch.Tensor]]:
    """Return how each mask is made: one that rules explain, one with padding, and its opposite, and noise."""
    lengths = torch.randint(2048, 4097, (SHAPE[0],), generator=torch.Generator().manual_seed(0))
    lengths[0] = SHAPE[-1]

    def dense(mask: object) -> torch.Tensor:
        return mask.dense(*SHAPE[2:]).expand(SHAPE).contiguous()  # type: ignore[attr-defined]

    def noise() -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        return torch.randint(0, 2, SHAPE, generator=generator, dtype=torch.uint8).view(torch.bool)

    return {
        "causal": lambda: dense(causal()),
        "causal and padding": lambda: dense(causal() & padding(lengths)),
        "causal and padding, True = hidden": lambda: ~dense(causal() & padding(lengths)),
        "noise": noise,
    }


def calls_on(mask: torch.Tensor, *, explained: bool) -> turns.Ways:
    """Return what is timed on one mask."""
    targets = [it for it in TARGETS if explained or it != "flash_attn varlen"]
    calls: turns.Ways = {PASS: lambda: mask.any(-1), "identify": lambda: identify(mask)}
    for name in targets:
        calls[f"convert to {name}"] = lambda name=name: convert(mask, target=name, num_heads=1, lossy=True)
    return calls


def growth_of(call: Callable[[], object]) -> int:
    """Return by how many MiB the process grew at most during a call."""
    before, most, done = _resident(), 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.is_set():
            most = max(most, _resident())
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    kept = call()
    done.set()
    watcher.join()
    del kept
    return max(0, most - before)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 // 2**20


def main() -> None:
    """Time every call on every mask, print the ratios, and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, default=turns.RESULTS / "mask_time.json")
    parser.add_argument("--grown", nargs=2, metavar=("MASK", "CALL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.grown:
        name, call = options.grown
        mask = masks()[name]()
        print(growth_of(calls_on(mask, explained=name == "causal")[call]))
        return
    found: dict[str, dict[str, object]] = {}
    for name, make in masks().items():
        mask = make()
        calls = calls_on(mask, explained=name == "causal")
        seconds = turns.seconds_in_turns(calls, options.rounds)
        del mask
        for call in calls:
            command = [sys.executable, __file__, "--grown", name, call]
            grown = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            row = {"ms": turns.spread([1000 * s for s in seconds[call]], 1), "grown_mib": grown}
            row["times_a_pass"] = turns.ratios(seconds, call, PASS)
            found.setdefault(name, {})[call] = row
            ratio = row["times_a_pass"]
            print(
                f"{name:36} {call:46} {row['ms']['median']:8.1f} ms  {ratio['median']:5.2f}x  +{grown} MiB",
                flush=True,
            )
    facts = {"shape": SHAPE, "threads": torch.get_num_threads(), "torch": torch.__version__, "found": found}
    options.json.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()

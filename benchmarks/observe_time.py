"""What do statistics cost in time and memory, beside attention without them? One run, in turns.

    python benchmarks/observe_time.py                    writes benchmarks/results/observe_time.json
    python benchmarks/observe_time.py --only time --rounds 9
    python benchmarks/observe_time.py --only memory

Causal, float32, 8 heads of 64 unless said. Memory is measured in a process of its own for each way.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import memory_of
import problems
import torch
import turns
from memory_of import WAYS, measured_apart, observing
from problems import Problem

PLAIN = "SDPA, is_causal"
TOKENS, LONG, LONGEST = 4096, 16384, 65536
#: What is timed -> how many times as long as plain SDPA it may take; None: stated only.
TIMED: dict[str, tuple[Callable[[Problem], Any], float | None]] = {
    PLAIN: (memory_of.with_sdpa, None),
    "observe": (observing(), 1.8),
    "observe, exact max": (observing(exact_max=True), 2.8),
    "observe, vectors per query": (observing(per_query=True), None),
    "observe, top 4 keys": (observing(top_k=4), None),
    "attention with its weights": (memory_of.with_weights, None),
}


def same_as_from_weights(problem: Problem) -> None:
    """End the benchmark when output or statistics are not those of the weights themselves."""
    output, statistics = observing()(problem)
    truth, weights = memory_of.with_weights(problem)
    entropy = -(weights * weights.clamp_min(1e-38).log()).sum(-1).mean(-1)
    for name, ours, theirs in (("output", output, truth), ("entropy", statistics.entropy_nats, entropy)):
        far = (ours - theirs).abs().max().item()
        if not far < 1e-4:
            sys.exit(f"{name} is {far:.2g} away from that of the weights: this is no matter of speed")


def times(rounds: int) -> dict[str, Any]:
    """Return the times of every way at T 4096, in turns, and their ratios to plain attention."""
    same_as_from_weights(problems.problem(problems.causal(1024), 1024))
    problem = problems.problem(problems.causal(TOKENS), TOKENS)

    def without_gradients(way: Callable[[Problem], Any]) -> Callable[[], Any]:
        def call() -> Any:
            with torch.no_grad():
                return way(problem)

        return call

    seconds = turns.seconds_in_turns(
        {name: without_gradients(way) for name, (way, _) in TIMED.items()}, rounds
    )
    found = {}
    for name, each in seconds.items():
        limit, ratio = TIMED[name][1], turns.ratios(seconds, name, PLAIN)
        found[name] = {"milliseconds": turns.spread([1000 * s for s in each], 2), "times_plain": ratio}
        if limit is not None:
            found[name]["wanted"] = f"<= {limit}: {'met' if ratio['median'] <= limit else 'MISSED'}"
        print(
            f"  {name:28} {found[name]['milliseconds']['median']:9.1f} ms  {ratio['median']:5.2f}x plain",
            end="",
        )
        print(f" ({ratio['low']:.2f} to {ratio['high']:.2f})  {found[name].get('wanted', '')}")
    return found


def memory(threads: int) -> dict[str, Any]:
    """Return the peaks of every way at T 16384, and of the map of 65536 tokens."""
    heads = 8
    scores_mib = heads * LONG * LONG * 4 / 2**20
    found: dict[str, Any] = {f"weights alone, T {LONG}, H {heads}, computed": {"peak_mib": scores_mib}}
    print(
        f"  weights alone at T {LONG}, H {heads}: {scores_mib:.0f} MiB, computed; with the scores twice that"
    )
    for way, tokens, number in (
        ("with weights", TOKENS, heads),
        ("SDPA", LONG, heads),
        ("attend", LONG, heads),
        ("observe", LONG, heads),
        ("observe, exact max", LONG, heads),
        ("observe, map 256", LONGEST, 1),
    ):
        told = found[f"{way}, T {tokens}, H {number}"] = dict(measured_apart(way, tokens, number, threads))
        wanted = ""
        if tokens == LONG and way.startswith("observe"):
            wanted = f"1/{scores_mib / max(told['peak_mib'], 0.1):.0f} of the weights, wanted 1/10: "
            wanted += "met" if told["peak_mib"] * 10 <= scores_mib else "MISSED"
        if tokens == LONGEST:
            wanted = "wanted under 1 GiB: " + ("met" if told["process_mib"] < 1024 else "MISSED")
        told |= {"wanted": wanted} if wanted else {}
        line = f"  {way:20} T {tokens:6} H {number}: peak of the call {told['peak_mib']:8.1f} MiB"
        print(f"{line}, process {told['process_mib']:6.0f} MiB, {told['seconds']:6.2f} s  {wanted}")
    return found


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("time", "memory"), help="one of the two; written with --json only")
    parser.add_argument("--rounds", type=int, default=7, help="times of each way (7)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of torch (all)")
    parser.add_argument("--json", type=Path, help="where to write")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    result: dict[str, Any] = {"machine": turns.machine(), "rounds": asked.rounds}
    print(turns.line_of(result["machine"]))
    if asked.only != "time":
        print(f"\nmemory, causal, beside the inputs; ways: {', '.join(WAYS)}")
        result["memory"] = memory(asked.threads)
    if asked.only != "memory":
        print(f"\ntime, causal, T {TOKENS}, H 8")
        result["time"] = times(asked.rounds)
    if asked.json or not asked.only:
        print("\nwritten to", turns.write(result, asked.json or turns.RESULTS / "observe_time.json"))


if __name__ == "__main__":
    main()

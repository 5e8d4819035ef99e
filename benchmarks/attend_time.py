"""How long does attend() take beside what people do instead? Everything is measured in one run, in turns.

    python benchmarks/attend_time.py     the table; writes benchmarks/results/attend_time.json
    python benchmarks/attend_time.py --only window --rounds 9
    python benchmarks/attend_time.py --threads 1 --json one_thread.json

Every answer is compared with SDPA's before it is timed. The rivals are given what favours them: the dense
mask and the BlockMask are made beforehand, and compiling is timed apart. attend() is handed its mask in each
call; what it works out about it, it remembers, as it does between the layers of a model.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import problems
import torch
import turns
from problems import Problem
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

OURS, DENSE, FLAG, FLEX = "attend", "SDPA, dense mask", "SDPA, is_causal", "FlexAttention, compiled"
Attention = Callable[[Problem], Tensor]


@dataclass(frozen=True)
class Row:
    """One line of the table: a problem, its rivals, and how many times as fast as they attend() should be."""

    name: str
    make: Callable[[], Problem]
    rivals: tuple[str, ...]
    reach: dict[str, float] = field(default_factory=dict)
    gradients: bool = True
    more_rounds: int = 1


def rows() -> list[Row]:
    """Return the lines of the table, in order."""
    dense, both = (DENSE, FLEX), (DENSE, FLAG, FLEX)
    table = [
        Row(
            "causal and padding, B 8, T 1024, half full",
            lambda: problems.problem(problems.causal_padding(1024), 1024, batch=8),
            dense,
            {DENSE: 2.5},
        ),
        Row(
            "documents 16 x 512, causal, T 8192",
            lambda: problems.problem(problems.documents(8192), 8192),
            dense,
            {DENSE: 15.0},
        ),
        Row(
            "16 uneven documents, causal, T 8192",
            lambda: problems.problem(problems.uneven_documents(8192), 8192),
            (DENSE,),
            gradients=False,
        ),
        Row(
            "sliding window 256, T 8192",
            lambda: problems.problem(problems.window(8192), 8192),
            both,
            {DENSE: 8.0, FLAG: 1.0},
        ),
        Row(
            "blocks of 128, 25 % visible, dense tensor, T 4096",
            lambda: problems.problem(problems.blocks(4096), 4096),
            dense,
            {DENSE: 2.0},
        ),
        Row(
            "the same blocks, every second entry hidden",
            lambda: problems.problem(problems.torn_blocks(4096), 4096),
            (DENSE,),
            gradients=False,
        ),
    ]
    for tokens in (512, 1024, 2048, 4096, 8192):
        make = lambda tokens=tokens: problems.problem(problems.causal(tokens), tokens)  # noqa: E731
        rivals = (FLAG, FLEX) if tokens == 4096 else (FLAG,)
        more = 3 if tokens <= 2048 else 1  # a few hundredths are to be told apart, and these are quick
        table.append(Row(f"plain causal, T {tokens}", make, rivals, {FLAG: 0.98}, tokens < 8192, more))
    return table


def with_attend(problem: Problem) -> Tensor:
    """Softlookup, with the mask as it is."""
    from softlookup.fused import attend

    return attend(problem.q, problem.k, problem.v, problem.mask)


def with_dense_mask(problem: Problem) -> Tensor:
    """PyTorch, with the mask as a tensor."""
    return sdpa(problem.q, problem.k, problem.v, problem.dense)


def with_flag(problem: Problem) -> Tensor:
    """PyTorch, causal by its flag."""
    return sdpa(problem.q, problem.k, problem.v, is_causal=True)


def compiled_flex(problem: Problem) -> tuple[Attention, float]:
    """Return FlexAttention compiled for this problem, and the seconds until its first answer was there.

    Its predicate is the one of the mask, so that it needs no dense tensor where the mask has a structure.
    """
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    from softlookup.fused.flex import mask_mod_of

    def run(problem: Problem) -> Tensor:
        return attention(problem.q, problem.k, problem.v, block_mask=block_mask)

    batch, _, tokens, _ = problem.q.shape
    torch._dynamo.reset()
    start = time.perf_counter()
    mask_mod = mask_mod_of(problem.mask, tokens, tokens, device=problem.q.device)
    block_mask = create_block_mask(mask_mod, batch, None, tokens, tokens, device=problem.q.device)
    attention = torch.compile(flex_attention)
    with torch.no_grad():
        run(problem)
    return run, time.perf_counter() - start


def ways_of(row: Row, problem: Problem, flex: bool) -> tuple[dict[str, Attention], dict[str, Any]]:
    """Return the ways to solve a problem, and notes about those that had to be compiled or do not run."""
    ways: dict[str, Attention] = {OURS: with_attend}
    notes: dict[str, Any] = {}
    for rival in row.rivals:
        if rival == FLEX and flex:
            try:
                ways[FLEX], notes["flex_compile_s"] = compiled_flex(problem)
            except Exception as error:
                notes["flex_refused"] = str(error).splitlines()[0][:200]
        elif rival != FLEX:
            ways[rival] = with_dense_mask if rival == DENSE else with_flag
    return ways, notes


def differences(problem: Problem, ways: dict[str, Attention]) -> dict[str, float]:
    """Return how far each way is from SDPA with the dense mask; ends the benchmark when ours is far."""
    with torch.no_grad():
        truth = with_dense_mask(problem)
        # The flag is timed beside other masks too, as a bound; there it computes something else.
        far = {name: (way(problem) - truth).abs().max().item() for name, way in ways.items() if name != FLAG}
    if not far[OURS] < 1e-4:
        sys.exit(f"attend() is {far[OURS]:.2g} away from SDPA: this is no matter of speed")
    return {name: float(f"{value:.2g}") for name, value in far.items()}


def forward(way: Attention, problem: Problem) -> Callable[[], Any]:
    """Return a call that computes the output, as in serving."""

    def call() -> Tensor:
        with torch.no_grad():
            return way(problem)

    return call


def forward_and_backward(way: Attention, problem: Problem) -> Callable[[], Any]:
    """Return a call that computes the output and the gradients of q, k and v, as in training."""
    needs = problem.requiring_gradients()
    upstream = torch.ones_like(problem.v)

    def call() -> tuple[Tensor, ...]:
        return torch.autograd.grad(way(needs), (needs.q, needs.k, needs.v), upstream)

    return call


def measure(row: Row, rounds: int, flex: bool) -> dict[str, Any]:
    """Return times and ratios of one line, forward and with the backward pass."""
    problem = row.make()
    ways, notes = ways_of(row, problem, flex)
    result: dict[str, Any] = {"difference_to_dense": differences(problem, ways), **notes}
    passes = {"forward": {name: forward(way, problem) for name, way in ways.items()}}
    if row.gradients:
        able = {name: way for name, way in ways.items() if name != FLEX or problem.q.is_cuda}
        passes["forward + backward"] = {
            name: forward_and_backward(way, problem) for name, way in able.items()
        }
    for name, calls in passes.items():
        seconds = turns.seconds_in_turns(calls, rounds * row.more_rounds)
        result[name] = {
            "milliseconds": {way: turns.spread([1000 * s for s in each], 3) for way, each in seconds.items()},
            "times_as_fast_as": {way: turns.ratios(seconds, way, OURS) for way in seconds if way != OURS},
        }
    return result


def verdicts(row: Row, measured: dict[str, Any]) -> list[str]:
    """Return what was to be reached and whether it was; with the backward pass a fifth less will do."""
    words = []
    for rival, wanted in row.reach.items():
        for name, room in (("forward", 1.0), ("forward + backward", 0.8 if wanted > 1 else 1.0)):
            if name in measured:
                ratio = measured[name]["times_as_fast_as"][rival]["median"]
                met = "met" if ratio >= wanted * room else "MISSED"
                words.append(f"{name}: {ratio:.2f}x as fast as {rival}, wanted {wanted * room:g}: {met}")
    return words


def show(row: Row, measured: dict[str, Any]) -> None:
    """Print one line of the table, with a line for each way below it."""
    print(f"\n{row.name}")
    for name in ("forward", "forward + backward"):
        for way, ms in measured.get(name, {}).get("milliseconds", {}).items():
            ratio = measured[name]["times_as_fast_as"].get(way)
            line = f"  {name:18} {way:24} {ms['median']:9.2f} ms ({ms['low']:.2f} to {ms['high']:.2f})"
            if ratio:
                line += (
                    f"  attend is {ratio['median']:6.2f}x as fast ({ratio['low']:.2f} to {ratio['high']:.2f})"
                )
            print(line)
    wrong = {way: far for way, far in measured["difference_to_dense"].items() if not far < 1e-4}
    if wrong:
        print(f"  not the answer of SDPA with the dense mask, largest difference: {wrong}")
    for words in (
        *verdicts(row, measured),
        *(f"{key}: {measured[key]}" for key in measured if key[:4] == "flex"),
    ):
        print(f"  {words}")


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="only the lines whose name contains this")
    parser.add_argument("--rounds", type=int, default=7, help="times of each way (7)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of torch (all)")
    parser.add_argument("--no-flex", action="store_true", help="leave FlexAttention and its compiling out")
    parser.add_argument("--json", type=Path, help="where to write; with --only nothing is written without it")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    facts = turns.machine()
    print(turns.line_of(facts))
    result: dict[str, Any] = {"machine": facts, "rounds": asked.rounds, "rows": {}}
    for row in rows():
        if asked.only in row.name:
            measured = measure(row, asked.rounds, not asked.no_flex)
            result["rows"][row.name] = {**measured, "verdicts": verdicts(row, measured)}
            show(row, measured)
    if asked.json or not asked.only:
        print("\nwritten to", turns.write(result, asked.json or turns.RESULTS / "attend_time.json"))


if __name__ == "__main__":
    main()

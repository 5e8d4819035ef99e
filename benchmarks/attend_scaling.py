"""How does the cost of attend() grow with T, on each of its paths? Log-log, with fitted exponents.

    python benchmarks/attend_scaling.py      writes benchmarks/results/attend_scaling.json and .svg
    python benchmarks/attend_scaling.py --longest 4096 --rounds 3 --json short.json

Two heads, forward only. An exponent of 2 is the cost of the whole matrix, one of 1 that of a fixed number of
keys a query; it is fitted over the four largest T, where calls cost little beside the work.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
from pathlib import Path

import problems
import torch
import turns
from attend_time import DENSE, FLAG, differences, forward, with_attend, with_dense_mask, with_flag

SHORTEST, LONGEST, LONGEST_DENSE, HEADS = 512, 16384, 8192, 2
_CHECKED_AT = 1024

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 652, 420, 68, 200, 16, 40
_GREY = "#7d8590"
_COLOURS = (
    "#d9730d",
    "#3b82c4",
    "#2f9e6e",
    "#b1479d",
    "#c0504d",
    "#8a7f1e",
    "#6b6ecf",
    "#1f9aa8",
    _GREY,
    _GREY,
)


def measure(longest: int, rounds: int) -> dict[str, dict[int, dict[str, float]]]:
    """Return the milliseconds of every path at every T, the paths in turns."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    lengths = [SHORTEST << n for n in range(1 + int(math.log2(longest / SHORTEST)))]
    for tokens in lengths:
        calls: turns.Ways = {}
        for name, make in problems.PATHS.items():
            problem = problems.problem(make(tokens), tokens, heads=HEADS)
            calls[name] = forward(with_attend, problem)
            if tokens <= _CHECKED_AT:
                differences(problem, {"attend": with_attend})
        causal = problems.problem(problems.causal(tokens), tokens, heads=HEADS)
        calls[FLAG] = forward(with_flag, causal)
        if tokens <= LONGEST_DENSE:  # SDPA turns a bool mask into floats: 1 GiB at 16384
            calls[DENSE] = forward(with_dense_mask, causal)
        for name, seconds in turns.seconds_in_turns(calls, rounds).items():
            found.setdefault(name, {})[tokens] = turns.spread([1000 * s for s in seconds], 3)
    return found


def exponent(points: dict[int, dict[str, float]]) -> float:
    """Return the slope of log time over log T, by least squares over the four largest T."""
    last = sorted(points.items())[-4:]
    xs, ys = [math.log(t) for t, _ in last], [math.log(ms["median"]) for _, ms in last]
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    over = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    return round(over / sum((x - x_mean) ** 2 for x in xs), 2)


def picture(measured: dict[str, dict[int, dict[str, float]]]) -> str:
    """Return an SVG: one line a path over log axes, its name and exponent at its end."""
    times = [ms["median"] for points in measured.values() for ms in points.values()]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    lengths = sorted({tokens for points in measured.values() for tokens in points})

    def x_of(tokens: int) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * math.log2(tokens / lengths[0]) / math.log2(
            lengths[-1] / lengths[0]
        )

    def y_of(ms: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (math.log10(ms) - low) / (high - low)

    text = functools.partial('<text x="{:.1f}" y="{:.1f}" fill="{}" text-anchor="{}">{}</text>'.format)
    parts = [text(x_of(tokens), _HEIGHT - 14, _GREY, "middle", f"T {tokens}") for tokens in lengths]
    for power in range(low, high + 1):
        y = y_of(10**power)
        line = f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="{_GREY}" opacity="0.4"/>'
        parts += [line, text(_LEFT - 6, y + 4, _GREY, "end", f"{10**power:g} ms")]
    below = 0.0
    ends = {name: max(points.items()) for name, points in measured.items()}
    for name, colour in sorted(
        zip(measured, _COLOURS, strict=False), key=lambda pair: y_of(ends[pair[0]][1]["median"])
    ):
        points = sorted(measured[name].items())
        path = " ".join(f"{x_of(tokens):.1f},{y_of(ms['median']):.1f}" for tokens, ms in points)
        dashes = ' stroke-dasharray="5 4"' if colour == _GREY else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        below = max(below + 15, y_of(points[-1][1]["median"]) + 4)  # labels do not lie on each other
        parts.append(
            text(_WIDTH - _RIGHT + 8, below, colour, "start", f"{name}: T^{exponent(measured[name])}")
        )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}"\n'
    head += (
        '     role="img" aria-label="Milliseconds of a call over T, both logarithmic, a line for each path"\n'
    )
    return "\n".join(
        [head + '     font-family="system-ui, sans-serif" font-size="12">', *parts, "</svg>", ""]
    )


def main() -> None:
    """Measure, print, write and draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--longest", type=int, default=LONGEST)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--json", type=Path, default=turns.RESULTS / "attend_scaling.json", help="the picture lies beside"
    )
    parser.add_argument("--draw", action="store_true", help="measure nothing: draw what was written")
    asked = parser.parse_args()
    if not asked.draw:
        torch.set_num_threads(asked.threads)
        facts = turns.machine()
        measured = measure(asked.longest, asked.rounds)
        fitted = {name: exponent(points) for name, points in measured.items()}
        result = {
            "machine": facts,
            "rounds": asked.rounds,
            "heads": HEADS,
            "exponents": fitted,
            "milliseconds": measured,
        }
        turns.write(result, asked.json)
    result = json.loads(asked.json.read_text(encoding="utf-8"))
    measured = {
        name: {int(tokens): ms for tokens, ms in points.items()}
        for name, points in result["milliseconds"].items()
    }
    for name, points in measured.items():
        row = "".join(f"{ms['median']:10.2f}" for _, ms in sorted(points.items()))
        print(f"{name:18} T^{exponent(points):<5}{row}  ms at T {', '.join(map(str, sorted(points)))}")
    print(turns.line_of(result["machine"]))
    asked.json.with_suffix(".svg").write_text(picture(measured), encoding="utf-8")


if __name__ == "__main__":
    main()

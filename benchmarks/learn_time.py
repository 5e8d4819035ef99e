"""How long does a learner wait for an answer, beside importing torch? Everything in one run, in turns.

    python benchmarks/learn_time.py             five rounds; writes benchmarks/results/learn_time.json

`learn check` is a fresh process each time. `learn watch` is judged by the processor time that a save costs,
that of the waiting process and ours, from the save to the answer; the import of torch lies before the save.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from check_time import BASE, COMMAND, machine, seconds_of, summary

from softlookup.checker.guard import Child, Limits, launch_waiting
from softlookup.learn.exercise import Exercise, all_exercises, find_exercise
from softlookup.learn.judging import judge
from softlookup.learn.place import Place

RESULT = Path(__file__).parent / "results" / "learn_time.json"
_MOST_SECONDS = 60.0


def measure(rounds: int, place: Place) -> dict[str, list[float]]:
    """Return the wall times of the commands, in seconds: all in turn, round after round."""
    solved, module = find_exercise("causal-mask"), find_exercise("multi-head")
    for exercise in (solved, module):
        place.file(exercise).write_text(exercise.solution, encoding="utf-8")
    commands = {
        BASE: ([sys.executable, "-c", "import torch"], 0),
        "learn check, solved function": ([COMMAND, "learn", "check", solved.name], 0),
        "learn check, planted bug": ([COMMAND, "learn", "check", "which-axis"], 1),
        "learn check, solved module": ([COMMAND, "learn", "check", module.name], 0),
    }
    for command, status in commands.values():
        seconds_of(command, status, place.folder)
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, (command, status) in commands.items():
            times[name].append(seconds_of(command, status, place.folder))
    return times


def after_a_save(place: Place) -> dict[str, float]:
    """Return for each exercise the processor seconds from a save to the answer, in both processes."""
    return {
        exercise.name: round(
            statistics.median(_save(exercise, place.file(exercise), text) for text in _texts(exercise)), 3
        )
        for exercise in all_exercises()
    }


def _texts(exercise: Exercise) -> tuple[str, str]:
    return exercise.solution, exercise.task


def _save(exercise: Exercise, file: Path, text: str) -> float:
    file.write_text(text, encoding="utf-8")
    child = launch_waiting(Limits(wall_seconds=_MOST_SECONDS))
    before = _used(child)
    while (now := _used(child)) == 0 or now > before:  # it still imports
        before = now
        time.sleep(0.5)
    ours = time.process_time()
    last: list[float] = []
    close = child.close

    def closed() -> None:
        if not child.closed:
            last.append(_used(child))
        close()

    child.close = closed  # type: ignore[method-assign]
    judge(exercise, file, waiting=child)
    return time.process_time() - ours + (last[0] - before if last else 0.0)


def _used(child: Child) -> float:
    """Return the processor seconds of a child so far (Linux)."""
    fields = Path(f"/proc/{child._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        place, _ = Place.made(Path(folder, "lessons"))
        result: dict[str, Any] = {**machine(), **summary(measure(rounds, place))}
        saved = after_a_save(place)
    result["cpu_seconds_after_a_save"] = saved
    for name, row in result["measured"].items():
        print(f"{name:30} {row['median_s']:7.3f}s  {row['ratio_to_import_torch']:.2f}x import torch")
    worst = max(saved, key=lambda name: saved[name])
    median = statistics.median(saved.values())
    print(f"after a save: median {median:.2f} s, worst {saved[worst]:.2f} s ({worst}) of processor time")
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

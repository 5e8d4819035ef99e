"""How long does a check take, beside importing torch? Everything is measured in one run, in turns.

    python benchmarks/check_time.py             five rounds; writes benchmarks/results/check_time.json
    python benchmarks/check_time.py --rounds 9

The ratios are what counts: a busy machine slows all commands alike. Each command is a fresh process with its
output in a file, as a user starts it; one round that is not counted warms the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "benchmarks" / "results" / "check_time.json"
COMMAND = str(Path(sys.executable).with_name("softlookup"))
BASE = "import torch"
#: What is measured -> its command and the exit status that it should have.
COMMANDS = {
    BASE: ([sys.executable, "-c", "import torch"], 0),
    "check, right file": ([COMMAND, "check", "examples/attention_shapes_check.py"], 0),
    "check, broken twin": ([COMMAND, "check", "examples/attention_shapes_check_broken.py"], 1),
    "check, right module": ([COMMAND, "check", "tests/kill/module_styles/separate_projections.py"], 0),
    "check, wrong module": ([COMMAND, "check", "tests/wild/b128_values_reshaped_in_place_of_permuted.py"], 1),
    "explain": ([COMMAND, "explain", "softmax-over-queries"], 0),
}


def seconds_of(command: list[str], status: int, folder: Path = ROOT) -> float:
    """Run a command and return its wall time; another exit status than expected ends the benchmark."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        done = subprocess.run(command, cwd=folder, stdout=output, stderr=output, check=False)
        seconds = time.perf_counter() - start
        if done.returncode != status:
            output.seek(0)
            sys.exit(f"{' '.join(command)} exited with {done.returncode}:\n{output.read().decode()}")
    return seconds


def measure(rounds: int) -> dict[str, list[float]]:
    """Return the wall times of every command, in seconds: all commands in turn, round after round."""
    for command, status in COMMANDS.values():
        seconds_of(command, status)
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, (command, status) in COMMANDS.items():
            times[name].append(seconds_of(command, status))
    return times


def machine() -> dict[str, Any]:
    """Return on what is measured, and how busy it is before."""
    ask = "import torch; print(torch.__version__, torch.get_num_threads())"
    torch_version, threads = subprocess.check_output(
        [sys.executable, "-W", "ignore", "-c", ask], text=True
    ).split()
    return {
        "python": platform.python_version(),
        "torch": torch_version,
        "cpus": os.cpu_count(),
        "torch_threads": int(threads),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "not set"),
        "load_before": round(os.getloadavg()[0], 2),
    }


def summary(times: dict[str, list[float]]) -> dict[str, Any]:
    """Return median, spread and ratio to the import of torch."""
    base = statistics.median(times[BASE])
    return {
        "rounds": len(times[BASE]),
        "measured": {
            name: {
                "median_s": round(statistics.median(each), 3),
                "fastest_s": round(min(each), 3),
                "slowest_s": round(max(each), 3),
                "ratio_to_import_torch": round(statistics.median(each) / base, 2),
            }
            for name, each in times.items()
        },
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    result = {**machine(), **summary(measure(rounds))}
    print(f"{'':20} {'median':>8} {'fastest':>8} {'slowest':>8}  beside import torch")
    for name, row in result["measured"].items():
        print(
            f"{name:20} {row['median_s']:7.3f}s {row['fastest_s']:7.3f}s {row['slowest_s']:7.3f}s"
            f"  {row['ratio_to_import_torch']:.2f}x"
        )
    print(*(f"{key}: {value}" for key, value in result.items() if key != "measured"), sep=", ")
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

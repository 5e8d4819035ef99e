"""Grade a class of 200: right files, typical mistakes, endless loops, crashes, floods of output, no Python.

    python benchmarks/grade_class.py            writes benchmarks/results/grade_class.json

Every learner must have a row, whatever the others hand in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from check_time import COMMAND, machine

from softlookup.learn.exercise import find_exercise

RESULT = Path(__file__).parent / "results" / "grade_class.json"
CAUSAL = find_exercise("causal-mask")
_BEGIN = "import torch\n\n\ndef make_causal_allowed_mask(seq_len):\n    "
#: kind -> (how many, what is handed in)
KINDS = {
    "right": (90, CAUSAL.solution),
    "not begun": (20, CAUSAL.task),
    "future visible": (
        25,
        _BEGIN + "return torch.ones(1, 1, seq_len, seq_len, dtype=torch.bool).triu()\n",
    ),
    "off by one": (20, _BEGIN + "return torch.ones(1, 1, seq_len, seq_len, dtype=torch.bool).tril(1)\n"),
    "endless loop at import": (3, "while True:\n    pass\n"),
    "endless loop in the call": (3, _BEGIN + "while True:\n        pass\n"),
    "ends its process": (6, "import os\n\nos._exit(0)\n"),
    "crashes": (6, "import ctypes\n\nctypes.string_at(0)\n"),
    "10 MB of output": (6, "print('x' * 10_000_000)\n" + CAUSAL.solution),
    "much memory": (3, _BEGIN + "return torch.ones(1, 1, 10**6, 10**6)\n"),
    "no Python": (8, "Dear teacher, my dog has eaten it.\n"),
    "not text": (5, b"\xff\xfe\x00PNG"),
    "another file": (5, "print('hello')\n"),
}
SECONDS = 10.0  # for one file


def main() -> None:
    """Write the class, grade it, look at the rows."""
    with tempfile.TemporaryDirectory() as folder:
        for kind, (number, text) in KINDS.items():
            for i in range(number):
                file = Path(folder, f"{kind.replace(' ', '-')}-{i:02d}__causal-mask.py")
                file.write_bytes(text if isinstance(text, bytes) else text.encode())
        learners = len(list(Path(folder).iterdir()))
        jobs = os.cpu_count() or 1
        command = [COMMAND, "grade", folder, "--format", "json", "--timeout", str(SECONDS)]
        start = time.perf_counter()
        done = subprocess.run([*command, "--jobs", str(jobs)], capture_output=True, text=True, check=True)
        seconds = time.perf_counter() - start
    rows = json.loads(done.stdout)
    if len(rows) != learners:
        sys.exit(f"{learners} learners, {len(rows)} rows")
    seen: dict[str, Counter[str]] = {}
    for row in rows:
        grade = row["exercises"]["causal-mask"]
        words = ": ".join(filter(None, [grade["state"], " ".join(grade["names"])]))
        seen.setdefault(row["learner"].rpartition("-")[0], Counter())[words] += 1
    for kind, words in sorted(seen.items()):
        print(f"{kind:26} {dict(words)}")
    print(f"{len(rows)} rows in {seconds:.1f} s, {jobs} at the same time, {SECONDS:g} s for one file")
    result = {**machine(), "learners": len(rows), "jobs": jobs, "seconds": round(seconds, 1), "rows": seen}
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

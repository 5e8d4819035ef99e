import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
RIGHT = EXAMPLES / "attention_shapes_check.py"
BROKEN = EXAMPLES / "attention_shapes_check_broken.py"


def run(path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=60, check=False, env=environment
    )


def test_the_right_example_passes():
    done = run(RIGHT)
    assert (done.returncode, done.stdout) == (0, "attention invariants passed\n"), done.stderr


def test_the_broken_example_fails_on_the_sum_of_its_rows():
    done = run(BROKEN)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip().endswith("AssertionError: rows of weights do not sum to one")


def test_the_broken_example_differs_in_the_axis_of_its_softmax_only():
    pairs = zip(RIGHT.read_text().splitlines(), BROKEN.read_text().splitlines(), strict=True)
    differing = [(right.strip(), broken.strip()) for right, broken in pairs if right != broken]
    assert differing == [
        (
            "weights = torch.softmax(scores, dim=-1)  # (B, H, T_q, T_k)",
            "weights = torch.softmax(scores, dim=-2)  # (B, H, T_q, T_k)",
        )
    ]


@pytest.mark.parametrize(
    ("right", "wrong", "noticed"),
    [
        ("torch.tril(", "torch.triu(", "a query sees a key after itself"),
        ("math.sqrt(q.size(-1))", "q.size(-1)", "the output differs from PyTorch's"),
        ("return weights @ v, weights", "return weights @ v, weights[0]", "weights have shape (3, 6, 6)"),
        ("return weights @ v, weights", "return (weights @ v)[0], weights", "output has shape (3, 6, 4)"),
    ],
    ids=["tril to triu", "no root", "weights of one sample", "output of one sample"],
)
def test_each_assertion_notices_its_mistake(right, wrong, noticed, tmp_path):
    source = RIGHT.read_text()
    assert source.count(right) == 1
    (tmp_path / "changed.py").write_text(source.replace(right, wrong))
    with pytest.raises(AssertionError, match=re.escape(noticed)):
        runpy.run_path(str(tmp_path / "changed.py"), run_name="__main__")

"""softlookup watch SCRIPT: the script runs unchanged, and every model in it is watched."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from softlookup.cli import main
from softlookup.live.stored import read_trace

MODEL = """
import sys, math, torch
from torch import nn
class Attention(nn.Module):
    def __init__(self): super().__init__(); self.qkv = nn.Linear(16, 48)
    def forward(self, x):
        q, k, v = (it.unflatten(-1, (2, 8)).transpose(1, 2) for it in self.qkv(x).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=CAUSAL)
        return y.transpose(1, 2).flatten(2)
class Model(nn.Module):
    def __init__(self): super().__init__(); self.layers = nn.ModuleList([Attention(), Attention()])
    def forward(self, x):
        for layer in self.layers: x = x + layer(x)
        return x
CAUSAL = "leak" not in sys.argv
torch.manual_seed(0)
models = [Model() for _ in range(1 + ("two" in sys.argv))]
for step in range(3):
    for model in models: model(torch.randn(2, 6, 16)).sum().backward()
print("argv", sys.argv[1:])
if "fails" in sys.argv: raise ValueError("a mistake of the script")
if "leaves" in sys.argv: sys.exit(5)
"""


@pytest.fixture
def run(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(MODEL)

    def of(*options, args=()):
        command = [sys.executable, "-m", "softlookup", "watch", *options, str(script), *args]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)

    return of


def facts(done):
    return json.loads(done.stdout[done.stdout.index("{") :])


@pytest.mark.parametrize(
    ("words", "script_sees"),
    [
        (["FILE", "--format", "json", "--", "--every", "x"], ["--every", "x"]),
        (
            ["--every", "2", "FILE", "--rule", "causal", "--format", "json", "--", "a", "--", "b"],
            ["a", "--", "b"],
        ),
        (["--format", "json", "FILE", "--", "--help"], ["--help"]),
        (["--format", "json", "FILE", "--help"], ["--help"]),
    ],
)
def test_what_stands_behind_two_dashes_is_for_the_script(tmp_path, words, script_sees):
    file = tmp_path / "prints.py"
    file.write_text("import sys; print('argv', sys.argv[1:])")
    done = CliRunner().invoke(main, ["watch", *(str(file) if it == "FILE" else it for it in words)])
    assert done.exit_code == 0, done.output
    assert f"argv {script_sees}" in done.output
    assert json.loads(done.output[done.output.index("{") :])["models"] == []


@pytest.mark.parametrize("words", [["a", "--", "b"], ["--epochs", "3", "--", "b"]])
def test_words_before_two_dashes_that_are_no_options_are_refused_before_anything_runs(tmp_path, words):
    file = tmp_path / "never.py"
    file.write_text("raise AssertionError")
    done = CliRunner().invoke(main, ["watch", str(file), *words])
    assert done.exit_code == 2
    assert words[0] in done.output
    assert "What is for the script stands behind the first --." in " ".join(done.output.split())


def test_a_right_script_has_no_alarm_and_sees_its_own_command_line(run):
    done = run("--rule", "causal", "--format", "json", args=("--epochs", "3"))
    assert done.returncode == 0, done.stderr
    assert "argv ['--epochs', '3']" in done.stdout
    (model,) = facts(done)["models"]
    assert (model["model"], model["steps"], model["alarms"]) == ("Model", 3, [])
    assert model["coverage"] == "2 of 2 attention layers seen, 6 calls measured"
    assert [it["layer"] for it in model["layers"]] == ["layers.0", "layers.1"]


def test_a_leak_is_status_1_and_names_the_layer(run):
    done = run("--rule", "causal", args=("leak",))
    assert done.returncode == 1
    assert "SL901 rule-broken-live: layers.0" in done.stdout


def test_every_model_of_a_script_has_a_trace_of_its_own(run, tmp_path):
    done = run("--save-to", "traces", "--format", "json", args=("two",))
    assert [it["model"] for it in facts(done)["models"]] == ["Model", "Model 2"]
    for folder in ("Model", "Model-2"):
        stored = read_trace(tmp_path / "traces" / folder)
        assert [it.call.step for it in stored.records] == [0, 0, 1, 1, 2, 2]


def test_a_script_that_fails_is_told_with_its_traceback(run):
    done = run("--format", "json", args=("fails",))
    assert done.returncode == 2
    assert "ValueError: a mistake of the script" in done.stderr
    assert facts(done)["failed"] == "ValueError: a mistake of the script"
    assert len(facts(done)["models"]) == 1  # what was seen before is shown


def test_a_status_of_the_script_is_a_failure_too(run):
    assert run(args=("leaves",)).returncode == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--rule", "alibi(4)"), "--rule says who may look at whom"),
        (("--rule", "casual"), "casual"),
        (("--every", "0"), "every"),
        (("--show", "entropie"), "entropie"),
        (("--save-to", "."), "something lies where the traces would go"),
    ],
)
def test_bad_options_are_refused(run, options, words):
    done = run(*options)
    assert done.returncode == 2
    assert words in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_missing_script_is_refused(run, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "softlookup", "watch", str(tmp_path / "none.py")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "there is no such script" in done.stderr

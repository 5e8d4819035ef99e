"""What the proofs of the checker share: load a file, find the attention in it, examine it in this process.

The command line does the same in a guarded child; `test_check_cli_end_to_end.py` shows that both agree.
"""

import importlib.util
import inspect
import json
import sys
import tempfile
from functools import cache
from itertools import count
from pathlib import Path

import torch

from softlookup.checker.constructing import instance_of
from softlookup.checker.diagnose import declared, examine
from softlookup.checker.files import _not_attention
from softlookup.checker.sketching import sketch_of
from softlookup.checker.target import LocalTarget
from softlookup.terms import Contract

TESTS = Path(__file__).parent
sys.path.append(str(TESTS / "kill"))
from mutants import (  # noqa: E402
    EXPECT_UNRECOGNISED,
    FAMILIES,
    MUTANTS,
    PAIRS,
    build_all,
    mutant_of,
)
from patching import accepted_lines  # noqa: E402

torch.set_num_threads(1)  # the tensors are tiny
_serial = count()

#: (rule, style) of every mutant.
SINGLES = [(rule, mutant.style) for rule, mutants in MUTANTS.items() for mutant in mutants]
#: The same of the rules about who may look at whom, which are half of them.
VISIBILITY = [(rule, style) for rule, style in SINGLES if rule in FAMILIES["visibility"]]
#: One style for every rule, another one for the next rule.
ONE_STYLE_EACH = [
    (rule, mutants[number % len(mutants)].style) for number, (rule, mutants) in enumerate(MUTANTS.items())
]
UNKNOWN = [(kind, mutant.style) for kind, mutants in EXPECT_UNRECOGNISED.items() for mutant in mutants]
STYLES = sorted((TESTS / "kill" / "styles").glob("*.py"))
__all__ = ["ONE_STYLE_EACH", "PAIRS", "SINGLES", "STYLES", "UNKNOWN", "VISIBILITY"]


def entries(folder):
    """Return what tests/FOLDER/expected.json says about each file there."""
    return json.loads((TESTS / folder / "expected.json").read_text(encoding="utf-8"))


def diagnosis_of(entry, folder, dtype=None):
    """Return the diagnosis of one entry of an expected.json. Each is made once."""
    return _examined(TESTS / folder / entry["file"], entry["target"], _promises(entry["contract"], dtype))


def diagnosis_of_style(path, dtype=None):
    """Return the diagnosis of a right file of the kill table."""
    return _examined(path, None, _promises({}, dtype))


@cache
def killed(rules, style, dtype=None):
    """Return the diagnosis of a file with these bugs, and the lines that may be named in it."""
    with tempfile.TemporaryDirectory() as folder:
        path, _ = build_all(rules, style, Path(folder))
        promised = {}
        for mutant in (mutant_of(rule, style) for rule in rules):
            promised |= mutant.contract
            if mutant.dtype == "float16":  # no bug, until somebody promises to run in half precision
                promised["half"] = True
        return _examined(path, None, _promises(promised, dtype)), accepted_lines(path)


def half_of(rule, style):
    """Return the half precision in which a mutant is judged: bfloat16, unless it shows in float16 only."""
    return mutant_of(rule, style).dtype or "bfloat16"


def bug_line(path):
    """Return the number of the one line that is marked as wrong."""
    lines = path.read_text(encoding="utf-8").splitlines()
    (number,) = (number for number, line in enumerate(lines, 1) if "# bug" in line)
    return number


def _promises(contract, dtype):
    return tuple({**contract, **({"dtype": dtype} if dtype else {})}.items())


@cache
def _examined(path, name, promises):
    module = load(path)
    found = getattr(module, name) if name else _attention_in(module)
    if inspect.isclass(found):
        found = instance_of(found, {})
    return examine(LocalTarget(found, name or ""), declared(Contract(**dict(promises))))


def load(path):
    """Return the module that a file makes, under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"corpus_{next(_serial)}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def _attention_in(module):
    """Return the last definition that `softlookup check FILE` takes for attention: helpers come first."""
    own = [it for it in vars(module).values() if getattr(it, "__module__", "") == module.__name__]
    return next(it for it in reversed(own) if callable(it) and _not_attention(sketch_of(it)) is None)

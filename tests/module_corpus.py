"""What the proofs about modules share: load a file, build the module in it, examine it in this process."""

import inspect
import json
import sys
import tempfile
from functools import cache
from pathlib import Path

from checker_corpus import load
from torch import nn

from softlookup.checker.constructing import instance_of
from softlookup.checker.diagnose import declared, examine
from softlookup.checker.target import LocalTarget
from softlookup.terms import Contract

TESTS = Path(__file__).parent
sys.path.append(str(TESTS / "kill"))
import module_mutants as kills  # noqa: E402
from patching import MODULES, accepted_lines  # noqa: E402

#: (rule, style) of every mutant of a module.
SINGLES = [(rule, mutant.style) for rule, mutants in kills.MUTANTS.items() for mutant in mutants]
PAIRS = kills.PAIRS_ACROSS
STYLES = sorted(MODULES.glob("*.py"))


def entries(*path):
    """Return what a list of expectations under tests/ says about each file beside it."""
    return json.loads(TESTS.joinpath(*path).read_text(encoding="utf-8"))


def diagnosis_of(entry, folder):
    """Return the diagnosis of one entry of a list of expectations. Each is made once."""
    promised = json.dumps([entry.get("contract", {}), entry.get("init", {})])
    return _examined(TESTS / folder / entry["file"], entry["target"], promised)


def diagnosis_of_style(path):
    """Return the diagnosis of a right file of the kill table."""
    return _examined(path, None, "[{}, {}]")


@cache
def killed(rules, style):
    """Return the diagnosis of a module with these bugs, and the lines that may be named in it."""
    with tempfile.TemporaryDirectory() as folder:
        path, _ = kills.build_all(rules, style, Path(folder))
        promised = {}
        for mutant in (kills.mutant_of(rule, style) for rule in rules):
            promised |= mutant.contract
            if mutant.dtype == "float16":  # no bug, until somebody promises to run in half precision
                promised["half"] = True
        return _examined(path, None, json.dumps([promised, {}])), accepted_lines(path)


def lines_of(entry):
    """Return the lines that a finding about a wild module may point at."""
    lines = (TESTS / "wild" / entry["file"]).read_text(encoding="utf-8").splitlines()
    other = entry.get("or_line", "# bug")
    return {number for number, line in enumerate(lines, 1) if "# bug" in line or other in line}


@cache
def _examined(path, name, promised):
    contract, init = json.loads(promised)
    module = load(path)
    found = getattr(module, name) if name else _last_module_in(module)
    target = instance_of(found, init) if inspect.isclass(found) else found
    return examine(LocalTarget(target, found.__name__), declared(Contract(**contract)))


def _last_module_in(module):
    """Return the last module class of a file: parts of it come first."""
    own = [it for it in vars(module).values() if getattr(it, "__module__", "") == module.__name__]
    return [it for it in own if inspect.isclass(it) and issubclass(it, nn.Module)][-1]

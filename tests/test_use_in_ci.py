"""What docs/how-to/use-in-ci.md and the hooks for pre-commit tell people to run can be run."""

import re
import shlex
from pathlib import Path

import click
import pytest

from softlookup import cli
from softlookup.configuration import nearest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "how-to" / "use-in-ci.md").read_text(encoding="utf-8")
HOOKS = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
LINES = [
    *re.findall(r"^(?:- run: )?(softlookup .+)$", PAGE, re.M),
    *(f"{entry} model.py" for entry in re.findall(r"^  entry: (.+)$", HOOKS, re.M)),
]


@pytest.mark.parametrize("line", LINES)
def test_every_command_line_is_understood(line):
    _, name, *arguments = shlex.split(line)
    command = cli.main.get_command(click.Context(cli.main), name)
    assert command is not None, f"there is no command {name}"
    command.make_context(name, arguments)  # raises for an option that does not exist


def test_the_hooks_are_those_that_the_page_names():
    assert re.findall(r"^- id: (\S+)$", HOOKS, re.M) == ["softlookup-check", "softlookup-lint"]
    assert set(re.findall(r"- id: (\S+)", PAGE)) == {"softlookup-check", "softlookup-lint"}


def test_the_configuration_on_the_page_is_read_as_the_page_says(tmp_path):
    (table,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.S | re.M)
    (tmp_path / "pyproject.toml").write_text(table, encoding="utf-8")
    read = nearest([str(tmp_path)])
    local = read.declared(str(tmp_path / "src" / "models" / "local.py"), "LocalAttention")
    assert (local.contract.mask, local.contract.causal, local.contract.window) == ("allowed", "built-in", 4)
    assert local.init == {"d_model": 32, "num_heads": 4}
    assert read.exclusion.covers(str(tmp_path / "src" / "old" / "deep" / "model.py"))
    assert read.exclusion.covers(str(tmp_path / "src" / "new" / "model_generated.py"))
    assert not read.exclusion.covers(str(tmp_path / "src" / "new" / "model.py"))

"""What docs/how-to/convert-and-check-masks.md tells people to run runs, and prints what it shows."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import torch
from click.testing import CliRunner

from softlookup.cli import main

torch.set_num_threads(1)
PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "convert-and-check-masks.md"


def test_the_blocks_of_the_page_run_in_their_order_and_print_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, printed, commands = {}, "", 0
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text("utf-8"), re.S | re.M):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(block, names)
            printed = output.getvalue()
        elif language == "text":
            assert printed == block
        else:
            for line in block.splitlines():
                program, *arguments = shlex.split(line)
                assert program == "softlookup"
                result = CliRunner().invoke(main, arguments)
                assert result.exit_code == 0, f"{line}\n{result.output}"
                commands += 1
    assert commands >= 6
    assert (tmp_path / "window.svg").read_text("utf-8").startswith("<svg")

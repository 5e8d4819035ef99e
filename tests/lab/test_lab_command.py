"""softlookup lab: what it prints, whom it warns, and how it ends."""

import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("uvicorn", reason="the lab is served by uvicorn")

from lab_models import save_factory

from softlookup.cli import main
from softlookup.lab import serving


@pytest.fixture
def model(tmp_path):
    return save_factory(tmp_path)


@pytest.fixture
def served(monkeypatch):
    """What would be served, without serving it."""
    seen = {}

    def serve(app, bound, ready):
        seen.update(app=app, at=bound.getsockname())
        ready()
        bound.close()

    monkeypatch.setattr(serving, "serve", serve)
    return seen


def lab(*arguments):
    return CliRunner().invoke(main, ["lab", *arguments])


def test_the_printed_address_opens_the_page_and_nothing_else_does(model):
    command = [sys.executable, "-m", "softlookup", "lab", model, "--port", "0", "--no-open"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        printed = [child.stdout.readline() for _ in range(3)]
        address = printed[2].strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", address)
        with urllib.request.urlopen(address, timeout=20) as answer:
            assert "<title>softlookup lab</title>" in answer.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(address.partition("?")[0], timeout=20)
    finally:
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=30)
    assert child.returncode == 0, errors
    assert "Traceback" not in errors
    assert address.partition("=")[2] not in errors


def test_it_listens_on_this_machine_only_unless_told_otherwise(model, served):
    quiet = lab(model, "--port", "0", "--no-open")
    assert served["at"][0] == "127.0.0.1"
    assert "warning" not in quiet.output
    warned = lab(model, "--port", "0", "--no-open", "--host", "0.0.0.0")
    assert served["at"][0] == "0.0.0.0"
    assert "opens this lab to other machines" in warned.output
    assert warned.exit_code == 0


def test_only_a_lab_for_others_is_served_by_other_names():
    assert not serving.keys_for("127.0.0.1").serves("192.168.1.7:8765")
    assert not serving.keys_for("0.0.0.0").serves("evil.example")
    assert serving.keys_for("0.0.0.0").serves("192.168.1.7:8765")
    assert serving.keys_for("::1").serves("[::1]:8765")


def test_a_port_in_use_a_missing_model_and_a_missing_library_are_said_in_words(model, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = lab(model, "--no-open", "--port", str(taken.getsockname()[1]))
    assert busy.exit_code == 2
    assert "--port 0 takes a free one" in busy.output
    missing = lab("no/such/model", "--no-open", "--port", "0")
    assert missing.exit_code == 2
    assert "no model was found" in missing.output
    monkeypatch.setattr(serving.importlib.util, "find_spec", lambda name: None)
    without = lab(model, "--no-open", "--port", "0")
    assert without.exit_code == 2
    assert "pip install 'softlookup[lab]'" in without.output


def test_a_browser_is_opened_by_a_file_that_only_this_user_reads(model, served, monkeypatch):
    opened = []
    monkeypatch.setattr(serving.webbrowser, "open", opened.append)
    assert lab(model, "--port", "0").exit_code == 0
    (address,) = opened
    assert address.startswith("file:")
    file = Path(urllib.request.url2pathname(address.removeprefix("file://")))
    assert served["app"].keys.token in file.read_text(encoding="utf-8")
    assert file.stat().st_mode & 0o077 == 0

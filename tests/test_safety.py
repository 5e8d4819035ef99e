"""A file that misbehaves costs one clear line: no traceback of ours, no process and no folder left behind."""

import contextlib
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest
import torch

from softlookup.checker.calls import Call
from softlookup.checker.guard import Limits, TargetError, launch
from softlookup.checker.target import FileSession, open_file
from softlookup.terms import SoftlookupError

TIMEOUT = 30.0  # of every test that is not about time: far above what a busy machine needs to import torch


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a file to check; afterwards nothing of its child may be left."""
    places = tmp_path / "places"
    places.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(places))

    def write_file(text, name="subject.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    yield write_file
    assert not list(places.iterdir()), "a temporary folder was left behind"


def ends_soon(pid):
    """Say whether the process is gone, or a moment later: one that was killed takes it to die."""
    patience = time.monotonic() + 5
    while is_running(pid):
        if time.monotonic() > patience:
            return False
        time.sleep(0.02)
    return True


def is_running(pid):
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def answer_of(path, *args, timeout=TIMEOUT):
    with open_file(path, timeout=timeout) as session:
        (answer,) = session.target("attend").perform([Call(args)])
    return answer


def reason(path, *args, timeout=TIMEOUT):
    """Run until it fails and return the one line that says why."""
    with pytest.raises(TargetError) as caught:
        answer_of(path, *args, timeout=timeout)
    assert isinstance(caught.value, SoftlookupError)
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    return str(caught.value)


def test_a_file_that_does_not_exist_is_named():
    with pytest.raises(TargetError, match=r"no_such\.py: no such file"):
        open_file("no_such.py")


def test_an_endless_loop_in_the_file_ends_at_the_limit_and_names_its_line(write, tmp_path):
    begun = tmp_path / "begun"
    path = write(f"""
        open({str(begun)!r}, "w").close()
        while True:
            pass
    """)
    with launch(path, Limits(TIMEOUT)) as child:
        while not begun.exists():
            time.sleep(0.01)
        child.seconds_left = 0.2  # importing torch was not what should take long
        with pytest.raises(TargetError, match=r"30 s while asked to import subject.py, at line [34]$"):
            FileSession(child).sketches()


def test_the_import_of_torch_does_not_use_up_the_time_of_a_file(write):
    with launch(write("def attend(q): pass\n"), Limits(0.5)) as child:  # torch alone takes longer
        assert [it.name for it in FileSession(child).sketches()] == ["attend"]
    slow = write("import time; time.sleep(30)\n")
    assert "stopped after the time limit of 0.5 s while asked to import" in reason(slow, timeout=0.5)


def test_what_we_do_ourselves_does_not_use_up_the_time_of_the_target(write):
    path = write("""
        import signal
        def attend():
            return signal.getitimer(signal.ITIMER_REAL)[0]
    """)
    with launch(path, Limits(TIMEOUT)) as child:
        target = FileSession(child).target("attend")
        child.seconds_left = 0.8
        (before,) = target.perform([Call()])
        time.sleep(1.0)  # we think
        (after,) = target.perform([Call()])
    assert after.failure is None
    assert before.result - after.result < 0.5  # nor does its own clock run, which ends it without us


MISCHIEF = """
import colorsys, json, os, resource, signal, sys, tempfile, time
import torch

print(json.dumps({"verdict": "clean"}))
torch.allclose = lambda *a, **k: True

def leave():
    sys.exit("enough")

def interrupt():
    raise KeyboardInterrupt

def huge_tensor():
    return torch.ones(100 * 10**9, dtype=torch.uint8).sum()

def twelve_gigabytes():
    return torch.empty(12 * 2**30, dtype=torch.uint8).numel()  # untouched: only our limit forbids it

def huge_bytes():
    return len(bytearray(100 * 10**9))

def megabytes():
    for _ in range(4):
        print("x" * 2**20)
        print("y" * 2**20, file=sys.stderr)

def read_input():
    return input()

def limits():
    return list(resource.getrlimit(resource.RLIMIT_CPU))

def surroundings():
    open("left.txt", "w").close()
    return [dict(os.environ), os.getcwd(), os.path.expanduser("~"), tempfile.gettempdir()]

def fork():
    if os.fork() == 0:
        return "copy"
    time.sleep(0.3)
    return "first"

def patch(q):
    torch.equal = lambda *a, **k: True
    return q * 2

def fine():
    return 1

def endless_printing():
    while True:
        print("x" * 2**20)
"""


def line_of(text):
    return MISCHIEF[: MISCHIEF.index(text)].count("\n") + 1


@contextlib.contextmanager
def secret_on_standard_input(folder):
    (folder / "typed.txt").write_text("typed by the user")
    kept = os.dup(0)
    with open(folder / "typed.txt") as typed:
        os.dup2(typed.fileno(), 0)
    try:
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.fixture(scope="module")
def mischief(tmp_path_factory):
    """One child for everything that it must survive: call a function of ``MISCHIEF`` and one that is fine."""
    folder = tmp_path_factory.mktemp("mischief")
    shadow = folder / "shadow"
    shadow.mkdir()
    (shadow / "colorsys.py").write_text("raise RuntimeError('shadowed')")
    (folder / "subject.py").write_text(MISCHIEF)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MY_SECRET_TOKEN", "do not tell")
        patch.setenv("PYTHONPATH", "/nowhere")
        patch.chdir(shadow)
        patch.setattr(sys, "path", ["", *sys.path])
        with secret_on_standard_input(folder):
            session = open_file(folder / "subject.py", timeout=120)

    def perform(name, *args):
        (answer,) = session.target(name).perform([Call(args)])
        assert session.target("fine").perform([Call()])[0].result == 1
        return answer

    with session:
        yield perform


def test_exit_in_a_call_is_an_answer(mischief):
    failure = mischief("leave").failure
    assert (failure.kind, failure.message) == ("SystemExit", "enough")
    assert failure.line == line_of('sys.exit("enough")')


def test_an_interrupt_raised_by_a_call_is_an_answer(mischief):
    failure = mischief("interrupt").failure
    assert (failure.kind, failure.line) == ("KeyboardInterrupt", line_of("raise KeyboardInterrupt"))


def test_a_huge_tensor_fails_cleanly(mischief):
    failure = mischief("huge_tensor").failure
    assert failure.message == "out of memory: a check may take 8 GiB of memory"
    assert failure.line == line_of("return torch.ones(100")


def test_the_memory_limit_is_ours_and_not_the_machines(mischief):
    assert mischief("twelve_gigabytes").failure.message == "out of memory: a check may take 8 GiB of memory"


def test_huge_python_objects_fail_cleanly(mischief):
    assert mischief("huge_bytes").failure.message == "out of memory: a check may take 8 GiB of memory"


def test_printed_megabytes_do_no_harm_and_stay_out_of_sight(mischief, capfd):
    assert mischief("megabytes").failure is None
    assert capfd.readouterr() == ("", "")


def test_a_file_cannot_read_our_input(mischief):
    assert mischief("read_input").failure.kind == "EOFError"


def test_processor_time_is_limited_too(mischief):
    assert mischief("limits").result == [125, 125]


def test_secrets_stay_outside_and_every_folder_is_a_temporary_one(mischief):
    environment, *folders = mischief("surroundings").result
    assert not {"MY_SECRET_TOKEN", "PYTHONPATH"} & set(environment)
    assert "PATH" in environment
    assert len(set(folders)) == 1
    assert Path(folders[0]).name.startswith("softlookup-")


def test_a_copy_of_the_child_does_not_answer_too(mischief):
    assert mischief("fork").result == "first"


def test_patching_torch_and_printing_a_verdict_change_no_tensor(mischief):
    q = torch.ones(3)
    answer = mischief("patch", q)
    assert not torch.equal(answer.result, q)
    assert torch.equal(answer.result, 2 * q)


def test_endless_printing_ends_at_the_file_limit(mischief):  # the last: afterwards nothing can be printed
    failure = mischief("endless_printing").failure
    assert failure.message == "file too large: a check may print, or write to a file, 64 MiB"


def test_a_stuck_call_ends_at_the_limit_and_names_call_and_line(write):
    path = write("""
        import time
        def attend(n):
            if n:
                time.sleep(1000)
            return n
    """)
    with launch(path, Limits(TIMEOUT)) as child:
        target = FileSession(child).target("attend")
        child.seconds_left = 0.5  # the import was not what should take long
        with pytest.raises(TargetError, match=r"30 s while asked to call attend \(2 of 3\), at line 5$"):
            target.perform([Call((0,)), Call((2,)), Call((0,))])
        with pytest.raises(TargetError, match=r"limit of 30 s while asked to call attend \(2 of 3\)"):
            target.perform([Call((0,))])  # and it stays the reason


def test_too_much_processor_time_is_said(write):
    path = write("""
        import os, signal
        def attend():
            os.kill(os.getpid(), signal.SIGXCPU)
    """)
    assert "of processor time while asked to call attend" in reason(path)


def test_exit_in_the_file_names_its_line(write):
    assert reason(write("import sys\nsys.exit(3)\n")) == (
        "subject.py could not be imported: SystemExit: 3, at line 2"
    )


def test_a_process_that_ends_itself_is_reported_with_its_status(write):
    path = write("import os\ndef attend():\n    os._exit(0)\n")
    assert reason(path) == (
        "subject.py: ended its own process (exit status 0) while asked to call attend (1 of 1)"
    )


def test_a_crash_names_the_signal_and_the_line(write):
    path = write("""
        import ctypes
        def attend():
            return ctypes.string_at(1)
    """)
    assert reason(path) == "subject.py: crashed (SIGSEGV) while asked to call attend (1 of 1), at line 4"


def test_a_syntax_error_names_its_line(write):
    assert reason(write("x = 1\ndef attend(q:\n")) == (
        "subject.py could not be imported: SyntaxError: '(' was never closed, at line 2"
    )


def test_a_missing_import_names_the_module_and_the_line(write):
    assert reason(write("import math\nimport no_such_module_at_all\n")) == (
        "subject.py could not be imported: ModuleNotFoundError: No module named 'no_such_module_at_all'"
        ", at line 2"
    )


def test_a_file_that_stops_after_its_functions_can_still_be_called(write):
    path = write("""
        def attend(n):
            return n + 1
        assert attend(1) == 3, "two and one"
    """)
    with open_file(path, timeout=TIMEOUT) as session:
        assert [sketch.name for sketch in session.sketches()] == ["attend"]
        assert session.target("attend").perform([Call((1,))])[0].result == 2
        stopped = session.loading_failure
        with pytest.raises(TargetError, match=r"no target later: .* import had stopped: AssertionError"):
            session.target("later")
    assert (stopped.kind, stopped.message, stopped.line) == ("AssertionError", "two and one", 4)


FORKS = """
    import os, subprocess, sys, time
    def attend(file, how):
        for _ in range(5):
            if how == "exec":
                subprocess.Popen(["sleep", "1000"], start_new_session=True)
            elif how == "hold everything open":
                for number in range(3, 100):
                    try:
                        os.set_inheritable(number, True)
                    except OSError:
                        pass
                subprocess.Popen(["sleep", "1000"], start_new_session=True, close_fds=False)
            elif os.fork() == 0:
                if how == "leave the group":
                    os.setsid()
                with open(file, "a") as list_of_processes:
                    list_of_processes.write(f"{os.getpid()}\\n")
                time.sleep(1000)
        time.sleep(0.3)
        if how in ("end", "hold everything open"):
            os._exit(0)
        return os.getpid()
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads the process list of Linux")
@pytest.mark.parametrize(
    "how", ["stay in the group", "leave the group", "exec", "end", "hold everything open"]
)
def test_no_descendant_outlives_the_check(write, tmp_path, how):
    names = tmp_path / "processes.txt"
    names.touch()
    path = write(FORKS)
    start = time.monotonic()
    if how in (
        "end",
        "hold everything open",
    ):  # its children hold the channel and the output open: that must not hold us
        assert "exit status 0" in reason(path, str(names), how)
    else:
        assert answer_of(path, str(names), how).failure is None
    assert time.monotonic() - start < TIMEOUT / 2
    started = [int(line) for line in names.read_text().split()]
    assert len(started) == (0 if how in ("exec", "hold everything open") else 5)
    assert all(ends_soon(pid) for pid in started)
    assert not [entry for entry in Path("/proc").glob("[0-9]*") if str(path.parent) in environment_of(entry)]


def environment_of(process):
    try:
        return (process / "environ").read_text(errors="replace")
    except OSError:
        return ""


def test_a_child_ends_when_its_parent_is_killed(write, tmp_path):
    subject = write("def attend():\n    return 1\n")
    code = f"""
import os, tempfile
tempfile.tempdir = {str(tmp_path)!r}
from softlookup.checker.guard import launch
child = launch({str(subject)!r})
child.receive()
print(child._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    pid = int(done.stdout)
    assert ends_soon(pid)


def test_a_forgotten_child_is_ended(write):
    child = launch(write("x = 1\n"))
    pid = child._process.pid
    assert is_running(pid)
    del child
    assert not is_running(pid)


def test_an_answer_that_cannot_be_read_is_one_line(write):
    path = write("""
        import json
        def attend():
            json.dumps = lambda *a, **k: "{ nothing"
    """)
    assert "no answer" in reason(path)


def test_an_answer_with_missing_parts_is_one_line(write):
    path = write("""
        import json
        def attend():
            json.dumps = lambda *a, **k: '{"result": {"tensor": 7}}'
    """)
    assert "the answer of its process cannot be read" in reason(path)


def test_python_that_cannot_start_is_one_line(write, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(TargetError, match="could not start Python"):
        launch(write("x = 1\n"))


def test_a_child_without_torch_says_so(write, monkeypatch, tmp_path):
    (tmp_path / "pyvenv.cfg").write_text(f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setattr(sys, "path", [])
    with launch(write("x = 1\n"), Limits(TIMEOUT)) as child:
        session = FileSession(child)
        with pytest.raises(TargetError, match=r"while asked to import torch: ModuleNotFoundError: .*torch"):
            session.sketches()

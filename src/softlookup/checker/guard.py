"""Run a file in a guarded child process. No torch here: parent and child can then import it at the same time.

A seat belt, not a sandbox against malice: the child cannot hold us past the time limit, fill the disk or the
memory by accident, read our input, or leave processes and files behind; it still runs with the rights of the
user. It sends back tensors and facts only, and the verdict is computed here from the tensors, so a file
cannot print or patch itself a pass.

A message is a JSON header and a block of safetensors bytes. The child says what it is at
(``{"at": "import torch"}``), then what the file holds, and then answers each request.
"""

from __future__ import annotations

import json
import math
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from softlookup.checker.ending import end_process, exit_status, has_ended
from softlookup.checker.frames import LARGEST_FRAME_BYTES, SIZES, pack_frame
from softlookup.checker.surroundings import environment_in
from softlookup.terms import SoftlookupError

MIB = 2**20
_STARTING_SECONDS = 60.0  # for Python and torch: a busy machine is no fault of the file
_UNSEEN_SECONDS = 5  # what it may work while we import torch and do not wait for it yet
_POLL_SECONDS = 0.05  # how soon the end of the child is noticed when nothing arrives
_BEFORE_THE_FILE = ("start Python", "import torch")


class TargetError(SoftlookupError):
    """The code under test could not be run: one line that says why, and the line where it stopped if any."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


@dataclass(frozen=True)
class Limits:
    """What a child may use."""

    wall_seconds: float = 60.0  # that we wait for it, from the import of the file to the last answer
    memory_bytes: int = 8192 * MIB  # address space beyond what torch itself takes
    device: str = ""  # where the target is called; "": the CPU, and no accelerator is seen
    file_bytes: int = 64 * MIB  # size of any one file it writes, its printed output included

    @property
    def cpu_seconds(self) -> int:
        """Processor time of one process; a little more than the wall clock, which has the better message."""
        return math.ceil(self.wall_seconds) + _UNSEEN_SECONDS


def launch(path: str | os.PathLike[str], limits: Limits = Limits()) -> Child:
    """Start a child that imports torch and then ``path``; return at once.

    Raises: TargetError when there is no such file, or this system cannot guard a child.

    >>> child = launch("attention.py")  # doctest: +SKIP
    >>> child.close()  # doctest: +SKIP
    """
    return Child(_file_at(path), limits)


def launch_waiting(limits: Limits = Limits()) -> Child:
    """Start a child that imports torch and then waits for ``begin``: the import takes the longest.

    Raises: TargetError when this system cannot guard a child.

    >>> child = launch_waiting()  # doctest: +SKIP
    >>> child.begin("attention.py")  # doctest: +SKIP
    """
    return Child(None, limits)


def _file_at(path: str | os.PathLike[str]) -> Path:
    file = Path(path).resolve()
    if not file.is_file():
        raise TargetError(f"{path}: no such file")
    return file


def _require_guard() -> None:
    if os.name != "posix":
        raise TargetError(
            "a file can only be checked on Linux and macOS; pass a callable to softlookup.check instead"
        )


class Child:
    """One guarded process and the conversation with it. Close it, or use it in a ``with`` statement."""

    def __init__(self, file: Path | None, limits: Limits) -> None:
        _require_guard()
        self.file = file or Path()  # none: it waits for one
        self.limits = limits
        self.asked = _BEFORE_THE_FILE[0]  # the last thing that was asked, for the message of a time-out
        self.seconds_left = limits.wall_seconds  # only our waiting for the file uses them up
        self._starting_left = _STARTING_SECONDS
        self.folder = Path(tempfile.mkdtemp(prefix="softlookup-"))
        self._channel, theirs = socket.socketpair()
        self._channel.setblocking(False)
        self._received = bytearray()
        self._closed_because = "its process was closed"
        try:
            self._process = self._spawn(theirs)
        except OSError as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise TargetError(f"{self.file.name}: could not start Python ({error})") from None
        finally:
            theirs.close()
        # Also runs when the object is forgotten, and when the interpreter ends.
        self._finish = weakref.finalize(self, end_process, self._process, self._channel, self.folder)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """True once the child has been ended."""
        return not self._finish.alive

    def close(self) -> None:
        """Kill the child with all its descendants and remove its folder."""
        self._finish()

    def _spawn(self, channel: socket.socket) -> subprocess.Popen[bytes]:
        order = {
            "package": str(Path(__file__).resolve().parents[2]),
            "file": "" if self.file == Path() else str(self.file),
            "channel": channel.fileno(),
            "paths": [os.path.abspath(entry) for entry in sys.path],
            "report": str(self.folder / "stack.txt"),
            "cpu_seconds": self.limits.cpu_seconds,
            **asdict(self.limits),
        }
        command = [sys.executable, "-I", str(Path(__file__).with_name("child.py")), json.dumps(order)]
        with open(self.folder / "output.txt", "wb") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                env=environment_in(self.folder, self.limits.device),
                pass_fds=[channel.fileno()],
                start_new_session=True,
            )

    def begin(self, path: str | os.PathLike[str]) -> None:
        """Tell a waiting child which file to load. Raises: TargetError when there is no such file."""
        self.file = _file_at(path)
        self.send({"do": "load", "file": str(self.file)})

    def send(self, header: dict[str, Any], tensors: bytes = b"") -> None:
        """Send one request. Raises: TargetError when the child has ended or the time is over."""
        waiting = memoryview(pack_frame(header, tensors))
        while waiting:
            self._wait(writing=True)
            try:
                waiting = waiting[self._channel.send(waiting) :]
            except BlockingIOError:
                continue
            except OSError:
                self._give_up(self._how_it_ended())

    def receive(self) -> tuple[dict[str, Any], bytes]:
        """Return the next message. Raises: TargetError when the child has ended or the time is over."""
        while True:
            header_bytes, tensor_bytes = SIZES.unpack(self._take(SIZES.size))
            if header_bytes + tensor_bytes > LARGEST_FRAME_BYTES:
                self._give_up("sent back more than can be read")
            text, tensors = self._take(header_bytes), self._take(tensor_bytes)
            try:
                header = dict(json.loads(text))
            except (ValueError, TypeError):
                self._give_up("sent back something that is no answer")
            if "at" not in header:
                return header, tensors
            self.asked = str(header["at"])

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            ended = self._wait()
            try:
                piece = self._channel.recv(max(65536, size - len(self._received)))
            except BlockingIOError:
                piece = None
            except OSError:
                piece = b""
            if piece:
                self._received += piece
            elif ended or piece == b"":  # a grandchild may hold the channel open: its end is not waited for
                self._give_up(self._how_it_ended())
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def _wait(self, *, writing: bool = False) -> bool:
        """Wait until the channel is ready or a moment has passed; say whether the child had ended before."""
        if not self._finish.alive:
            raise TargetError(f"{self.file.name}: {self._closed_because}")
        starting = self.asked in _BEFORE_THE_FILE
        left = self._starting_left if starting else self.seconds_left
        if left <= 0:
            self._give_up(self._why_late())
        ended = has_ended(self._process)
        pause = 0.0 if ended else min(left, _POLL_SECONDS)
        channels = [self._channel]
        begun = time.monotonic()
        select.select([] if writing else channels, channels if writing else [], [], pause)
        waited = time.monotonic() - begun
        if starting:
            self._starting_left -= waited
        else:
            self.seconds_left -= waited
        return ended

    def _give_up(self, reason: str) -> NoReturn:
        self._closed_because = reason
        self.close()
        raise TargetError(f"{self.file.name}: {reason}")

    def _why_late(self) -> str:
        """Ask the child where it is, and say so."""
        stack = self.folder / "stack.txt"
        if stack.exists() and not has_ended(self._process):
            os.kill(self._process.pid, signal.SIGUSR1)
            patience = time.monotonic() + 0.5
            while not self._last_line() and time.monotonic() < patience:
                time.sleep(0.01)
        seconds = _STARTING_SECONDS if self.asked in _BEFORE_THE_FILE else self.limits.wall_seconds
        limit = f"the time limit of {seconds:g} s"
        return f"stopped after {limit} while asked to {self.asked}{self._place()}"

    def _how_it_ended(self) -> str:
        patience = time.monotonic() + 1.0
        while not has_ended(self._process):  # the channel closes a moment before the process ends
            if time.monotonic() > patience:
                return f"closed the channel while asked to {self.asked}"
            time.sleep(0.01)
        status = exit_status(self._process)
        if status >= 0:
            return f"ended its own process (exit status {status}) while asked to {self.asked}{self._words()}"
        if -status == signal.SIGXCPU:
            return f"stopped after {self.limits.cpu_seconds} s of processor time while asked to {self.asked}"
        return f"crashed ({_signal_name(-status)}) while asked to {self.asked}{self._place()}"

    def _words(self) -> str:
        """Return the last line that Python printed when it could not even import torch."""
        if self.asked not in _BEFORE_THE_FILE:
            return ""
        printed = (self.folder / "output.txt").read_text(errors="replace").strip()
        return f": {printed.splitlines()[-1][:300]}" if printed else ""

    def _place(self) -> str:
        line = self._last_line()
        return f", at line {line}" if line else ""

    def _last_line(self) -> int | None:
        """Return the innermost line of the file in the stack that the child left behind."""
        try:
            stack = (self.folder / "stack.txt").read_text(errors="replace")
        except OSError:
            return None
        found = re.search(rf'File "{re.escape(str(self.file))}", line (\d+)', stack)
        return int(found.group(1)) if found else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

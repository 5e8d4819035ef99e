"""End a guarded child: no process and no file of it stays behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

MARK = "SOFTLOOKUP_CHILD"  # environment variable that all descendants of one child inherit


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Look without collecting the exit status: until then the number of its group cannot be reused."""
    if process.returncode is not None:
        return True
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def end_process(process: subprocess.Popen[bytes], channel: socket.socket, folder: Path) -> None:
    """Kill the process with all its descendants, close the channel and remove the folder."""
    exit_status(process)
    _kill_strays(folder.name)
    channel.close()
    for _ in range(20):  # something that is still dying may write once more
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.02)


def exit_status(process: subprocess.Popen[bytes]) -> int:
    """Kill what is left of the process group, and only then collect how its leader ended."""
    if process.returncode is None:
        # Nobody left, or (on macOS) only a dead leader: both are fine.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def _kill_strays(token: str) -> None:
    """Kill descendants that left the process group. Only where the system shows environments (Linux)."""
    mark = f"{MARK}={token}".encode()
    for _ in range(20):  # again while they still multiply
        strays = [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if mark in _environment_of(entry)]
        for stray in strays:
            with contextlib.suppress(OSError):
                os.kill(stray, signal.SIGKILL)
        if not strays:
            return
        time.sleep(0.02)


def _environment_of(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""

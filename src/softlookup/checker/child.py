"""The program of the guarded child: load one file, describe it, and make the calls that are asked for.

It is started as a script by ``guard.launch`` with one JSON argument, and talks over a socket it inherits.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softlookup.checker.guard import Child  # noqa: F401 - the other end


def main() -> None:
    """Set the limits, import torch, load the file, and serve until the channel closes."""
    order = json.loads(sys.argv[1])
    _limit(order)
    _import_this_package(order["package"])
    sys.path.extend(path for path in order["paths"] if path not in sys.path)  # behind the installed packages
    from softlookup.checker.frames import pack_frame

    channel = socket.socket(fileno=order["channel"])
    os.register_at_fork(after_in_child=channel.close)  # a copy of us must not answer too
    channel.sendall(pack_frame({"at": "import torch"}))
    from softlookup.checker.serving import Server

    if not _on_accelerator(order["device"]):  # a driver maps far more addresses than it uses memory
        _limit_memory(order["memory_bytes"])
    Server(channel, order["file"], _limits_in_words(order), order["device"]).run(_name_program)
    os._exit(0)  # without the target's exit handlers


def _on_accelerator(device: str) -> bool:
    return device.partition(":")[0] not in {"", "cpu"}


def _import_this_package(folder: str) -> None:
    """Import the softlookup that started us, not another that is installed; leave no trace on the path."""
    sys.path.insert(0, folder)
    import softlookup  # noqa: F401 - its parts are found through it from now on

    sys.path.remove(folder)


def _name_program(file: str) -> None:
    sys.argv = [file]


def _limit(order: dict[str, Any]) -> None:
    import faulthandler
    import resource

    sys.dont_write_bytecode = True
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_CPU, order["cpu_seconds"])
    _lower(resource.RLIMIT_FSIZE, order["file_bytes"])
    # Where it was when it crashed, or when the parent asks before it gives up.
    report = open(order["report"], "w")  # noqa: SIM115 - stays open for the whole run
    faulthandler.enable(report, all_threads=False)
    faulthandler.register(signal.SIGUSR1, report, all_threads=True)
    # Should the parent die, nobody else watches the clock (nor our start); unhandled, this signal ends us.
    signal.setitimer(signal.ITIMER_REAL, order["wall_seconds"] + 90)


def _limits_in_words(order: dict[str, Any]) -> dict[str, str]:
    """Return, for each kind of failure that a limit can cause, the words that name the limit."""
    return {
        "memory": f"a check may take {order['memory_bytes'] / 2**30:g} GiB of memory",
        "file": f"a check may print, or write to a file, {order['file_bytes'] / 2**20:g} MiB",
    }


def _limit_memory(allowance: int) -> None:
    """Allow this many bytes of address space beyond what torch has mapped so far."""
    import resource

    try:
        with open("/proc/self/statm") as file:
            mapped = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:  # no such file on macOS, which does not enforce the limit either
        return
    _lower(resource.RLIMIT_AS, mapped + allowance)


def _lower(what: int, value: int) -> None:
    import resource

    _, hard = resource.getrlimit(what)
    wanted = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (wanted, wanted))


if __name__ == "__main__":
    main()

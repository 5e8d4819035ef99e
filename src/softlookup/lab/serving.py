"""Open the lab: bind first, so that the address that is printed is the one it answers at."""

from __future__ import annotations

import atexit
import contextlib
import html
import importlib.util
import socket
import tempfile
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from softlookup.lab.guarding import Keys
from softlookup.terms import SoftlookupError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ANY = ("0.0.0.0", "::")


def require_server() -> None:
    """Refuse to begin without the libraries of the extra ``lab``.

    Raises: SoftlookupError when one is missing.
    """
    missing = [it for it in ("starlette", "uvicorn") if importlib.util.find_spec(it) is None]
    if missing:
        raise SoftlookupError(
            f"lab: {' and '.join(missing)} is not installed.", hint="pip install 'softlookup[lab]'"
        )


def keys_for(host: str) -> Keys:
    """Return new keys for a lab at an address.

    host: what it listens on; loopback names are always served
    """
    names = Keys().names
    if host in _ANY:
        return Keys(names | {socket.gethostname().lower()}, any_address=True)
    return Keys(names | {f"[{host.lower()}]" if ":" in host else host.lower()})


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens there. port: 0 for any free one.

    Raises: SoftlookupError when the address cannot be listened on.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as problem:
        raise SoftlookupError(
            f"lab: nothing can listen at {host}:{port}.",
            got=problem.strerror or str(problem),
            hint="--port 0 takes a free one",
        ) from problem
    return bound


def address_of(bound: socket.socket, host: str, keys: Keys) -> str:
    """Return the address that opens the lab, with its token."""
    shown = "127.0.0.1" if host in _ANY else host
    shown = f"[{shown}]" if ":" in shown else shown
    return f"http://{shown}:{bound.getsockname()[1]}/?token={keys.token}"


def open_in_browser(address: str) -> None:
    """Open a browser by a file that only this user can read: its command line would show the token to all."""
    with tempfile.NamedTemporaryFile("w", suffix=".html", delete=False, encoding="utf-8") as file:
        file.write(f'<meta http-equiv="refresh" content="0;url={html.escape(address)}">')
    webbrowser.open(Path(file.name).as_uri())
    atexit.register(Path(file.name).unlink, missing_ok=True)


def serve(app: Any, bound: socket.socket, ready: Callable[[], None]) -> None:
    """Answer until Ctrl+C. ready: called as soon as requests are taken."""
    import uvicorn

    config = uvicorn.Config(
        app,
        access_log=False,  # it would write the token down
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=2,
    )
    bound.listen()
    ready()
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[bound])

"""Who may ask the lab anything: the page that this run of it printed the address of, and nobody else.

A page of another site can make a browser send requests to this machine, and a name can be made to point at
it (DNS rebinding). So the Host must be one that the lab serves, an Origin must be the lab's own, and each
request must show a secret. There are two, because browsers send a cookie to every port of a host: the cookie
opens the page and its files, which hold nothing; only the token, which the page keeps for itself, opens the
model. Every answer carries the same strict headers.
"""

from __future__ import annotations

import ipaddress
import json
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

TOKEN_HEADER = "x-softlookup-token"
COOKIE = "softlookup-lab-"  # and a part of its own, so that two labs do not take each other's
MOST_BODY_BYTES = 256 * 1024
MOST_QUERY_BYTES = 2048

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def _secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True)
class Keys:
    """What opens one run of the lab.

    names: host names that requests may be addressed to;  any_address: also whatever is a bare IP address,
        which no rebinding can fake: for a lab that listens on all addresses
    token: in the printed address, then in a header;  cookie: set by the page, opens its files
    """

    names: frozenset[str] = frozenset({"localhost", "127.0.0.1", "[::1]"})
    any_address: bool = False
    token: str = field(default_factory=_secret, repr=False)
    cookie: str = field(default_factory=_secret, repr=False)

    def serves(self, host: str) -> bool:
        """Whether a Host header names this lab; any port, so that a tunnel may end at another one."""
        name, port = _name_and_port(host)
        if port and not (port.isascii() and port.isdigit()):
            return False
        return name in self.names or (self.any_address and _is_address(name))


class Guard:
    """Lets requests through to an app that come from the lab's own page; everything else gets 403."""

    def __init__(self, app: App, keys: Keys) -> None:
        self.app, self.keys = app, keys

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # the lab speaks over no web socket
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = _with_headers(send)
        status, why = self._refusal(scope)
        if why:
            await _refuse(answer, status, why)
            return
        await self.app(scope, _Limited(receive), answer)

    def _refusal(self, scope: Message) -> tuple[int, str]:
        """Return a status and why a request is refused; no reason where it is not."""
        hosts, origins = _values(scope, "host"), _values(scope, "origin")
        if len(hosts) != 1 or not self.keys.serves(hosts[0]):
            return 403, "the Host is not this lab"
        if any(it.lower() != f"{scope.get('scheme', 'http')}://{hosts[0].lower()}" for it in origins):
            return 403, "the Origin is not this lab"
        opens_page = scope["path"] == "/" and self._shows_token(_query_tokens(scope))
        if not opens_page and not set(_values(scope, "sec-fetch-site")) <= {"same-origin", "none"}:
            return 403, "another site asked"
        if len(scope.get("query_string", b"")) > MOST_QUERY_BYTES:
            return 414, "the address is too long"
        if scope["path"].startswith("/api/"):
            if not self._shows_token(_values(scope, TOKEN_HEADER)):
                return 403, "the token is missing or wrong: open the address that softlookup lab printed"
        elif not opens_page and not _same(self.keys.cookie, _cookies(scope)):
            return 403, "open the address that softlookup lab printed, with its token"
        if _declared_length(scope) > MOST_BODY_BYTES:
            return 413, f"the request is larger than {MOST_BODY_BYTES} bytes"
        return 200, ""

    def _shows_token(self, given: Iterable[str]) -> bool:
        return _same(self.keys.token, given)


class TooLargeError(Exception):
    """A body that grew beyond what a request may hold, whatever its header said."""


class _Limited:
    """Hands on the body of a request until it is too large."""

    def __init__(self, receive: Receive) -> None:
        self.receive, self.seen = receive, 0

    async def __call__(self) -> Message:
        message = await self.receive()
        self.seen += len(message.get("body", b""))
        if self.seen > MOST_BODY_BYTES:
            raise TooLargeError(f"the request is larger than {MOST_BODY_BYTES} bytes")
        return message


def _with_headers(send: Send) -> Send:
    """Return what sends an answer with the headers that every answer has."""
    ours = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [it for it in message.get("headers", []) if it[0].decode("latin-1").lower() not in HEADERS]
            message = {**message, "headers": [*kept, *ours]}
        await send(message)

    return sending


async def _refuse(send: Send, status: int, why: str) -> None:
    body = json.dumps({"error": why}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _values(scope: Message, name: str) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name.encode()]


def _query_tokens(scope: Message) -> list[str]:
    return parse_qs(scope.get("query_string", b"").decode("latin-1")[:MOST_QUERY_BYTES]).get("token", [])


def _cookies(scope: Message) -> list[str]:
    pairs = [part.strip().partition("=") for it in _values(scope, "cookie") for part in it.split(";")]
    return [value for name, _, value in pairs if name.startswith(COOKIE)]


def _same(secret: str, given: Iterable[str]) -> bool:
    """Whether one of the given words is the secret; each takes as long, whatever is wrong with it."""
    return any(secrets.compare_digest(secret.encode(), it.encode("utf-8", "replace")) for it in given)


def _declared_length(scope: Message) -> int:
    lengths = [int(it) for it in _values(scope, "content-length") if it.isascii() and it.isdigit()]
    return max(lengths, default=0)


def _name_and_port(host: str) -> tuple[str, str]:
    """Return the name in lower case, in brackets where it is an IPv6 address, and the port."""
    if host.startswith("["):
        name, _, rest = host.partition("]")
        return name.lower() + "]", rest.removeprefix(":")
    name, _, port = host.partition(":")
    return name.lower(), port


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True

"""The routes of the lab: the page, its files, and jobs as JSON. What a job does is in ``session``."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softlookup.lab.guarding import COOKIE, Guard, Keys, TooLargeError
from softlookup.lab.jobs import ENDED, Job
from softlookup.lab.session import Session
from softlookup.terms import SoftlookupError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_PAGE = Path(__file__).parent / "page"
_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
#: Files of the page by the name they are asked for; nothing else on this disk can be reached.
FILES = {it.name: it for it in sorted(_PAGE.iterdir()) if it.suffix in _KINDS}

MOST_WAIT_SECONDS = 1.0  # that an answer about a job is held back until the job has moved on
_LOOK_EVERY_SECONDS = 0.02

_log = logging.getLogger("softlookup.lab")


def lab_app(session: Session, keys: Keys) -> Guard:
    """Return the app of a lab, guarded from outside of all that answers, its errors too.

    session: the model and what was done with it;  keys: what opens it
    """
    from starlette.applications import Starlette
    from starlette.routing import Route

    routes = [
        Route("/", _page(keys), methods=["GET"]),
        Route("/files/{name}", _file, methods=["GET"]),
        Route("/api/model", _answering(_about), methods=["GET"]),
        Route("/api/jobs", _answering(_add), methods=["POST"]),
        Route("/api/jobs/{number:int}", _answering(_look), methods=["GET"]),
        Route("/api/jobs/{number:int}/cancel", _answering(_cancel), methods=["POST"]),
    ]
    errors: dict[Any, Any] = {404: _not_found, 405: _not_found, TooLargeError: _too_large, Exception: _failed}
    app = Starlette(routes=routes, exception_handlers=errors)
    app.state.session = session
    return Guard(app, keys)


def _page(keys: Keys) -> Any:
    async def page(request: Request) -> Response:
        """Hand out the page, and the cookie that opens its files."""
        from starlette.responses import HTMLResponse

        answer = HTMLResponse((_PAGE / "index.html").read_text(encoding="utf-8"))
        answer.set_cookie(COOKIE + keys.cookie[:6], keys.cookie, httponly=True, samesite="strict", path="/")
        return answer

    return page


async def _file(request: Request) -> Response:
    from starlette.responses import Response

    path = FILES.get(request.path_params["name"])
    if path is None:
        return await _not_found(request, None)
    return Response(path.read_bytes(), media_type=_KINDS[path.suffix])


def _answering(work: Any) -> Any:
    """Return a route that answers in JSON; what cannot be carried out is said in words, with status 400."""

    async def route(request: Request) -> Response:
        try:
            return _json(await work(request, request.app.state.session))
        except SoftlookupError as error:
            return _json({"error": str(error)}, 400)

    return route


async def _about(request: Request, session: Session) -> dict[str, Any]:
    return session.about()


async def _add(request: Request, session: Session) -> dict[str, Any]:
    asked = _read_json(await request.body())
    kind, work = session.work(asked)
    return session.jobs.add(kind, work).facts()


async def _look(request: Request, session: Session) -> dict[str, Any]:
    """Say how far a job is; wait a moment when it stands where the page has seen it."""
    job = _job(request, session)
    seen = request.query_params.get("seen", "")
    until = time.monotonic() + MOST_WAIT_SECONDS
    while job.state not in ENDED and _stands_at(job) == seen and time.monotonic() < until:
        await asyncio.sleep(_LOOK_EVERY_SECONDS)
    stands = _stands_at(job)
    return job.facts() | {"seen": stands}


async def _cancel(request: Request, session: Session) -> dict[str, Any]:
    job = _job(request, session)
    session.jobs.cancel(job)
    return job.facts()


def _stands_at(job: Job) -> str:
    return f"{job.state}-{job.progress.done}"


def _job(request: Request, session: Session) -> Job:
    job = session.jobs.find(request.path_params["number"])
    if job is None:
        raise SoftlookupError("lab: there is no such job any more.", hint="ask again")
    return job


def _read_json(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        raise SoftlookupError("lab: this request could not be read.", expected="one JSON object")
    return asked


def _json(told: dict[str, Any], status: int = 200) -> Response:
    """Answer in ASCII: lone surrogates and text of any direction travel as escapes."""
    from starlette.responses import Response

    body = json.dumps(told, allow_nan=False, separators=(",", ":"))
    return Response(body, status, media_type="application/json")


async def _not_found(request: Request, problem: Any) -> Response:
    return _json({"error": "there is nothing here"}, getattr(problem, "status_code", 404))


async def _too_large(request: Request, problem: Exception) -> Response:
    return _json({"error": str(problem)}, 413)


async def _failed(request: Request, problem: Exception) -> Response:
    _log.error("the lab failed", exc_info=problem)
    return _json({"error": "the lab itself failed; the terminal shows where"}, 500)

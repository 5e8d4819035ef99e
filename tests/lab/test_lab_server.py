"""Nobody but the lab's own page is answered, and every answer is as strict as the first."""

import json
import threading
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the lab is served by starlette")
pytest.importorskip("transformers", reason="the models of these tests are from transformers")

from lab_models import save_llama
from starlette.testclient import TestClient

from softlookup.auditing.loading import loaded_model
from softlookup.lab.app import FILES, lab_app
from softlookup.lab.guarding import HEADERS, MOST_BODY_BYTES, TOKEN_HEADER, Keys
from softlookup.lab.session import Session

ADDRESS = "http://127.0.0.1:8765"
HOSTILE = "</script><img src=x onerror=alert(1)> \u202eshalom שלום \x00 & \" ' `"


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    path = save_llama(tmp_path_factory.mktemp("llama"))
    session = Session(loaded_model(path), path, most_tokens=128)
    yield session
    session.close()


@pytest.fixture(scope="module")
def keys():
    return Keys()


@pytest.fixture(scope="module")
def app(session, keys):
    return lab_app(session, keys)


@pytest.fixture
def stranger(app):
    """Somebody without a token; what the app raises is answered as it would be."""
    return TestClient(app, base_url=ADDRESS, raise_server_exceptions=False)


@pytest.fixture
def page(app, keys):
    """The page: it has the token, and with it the cookie."""
    client = TestClient(
        app, base_url=ADDRESS, raise_server_exceptions=False, headers={TOKEN_HEADER: keys.token}
    )
    assert client.get(f"/?token={keys.token}").status_code == 200
    return client


def done(page, **asked):
    """Ask for a job and wait for its end."""
    told = page.post("/api/jobs", json=asked)
    assert told.status_code == 200, told.text
    job = told.json()
    while job["state"] in ("waiting", "running"):
        job = page.get(f"/api/jobs/{job['job']}?seen={job.get('seen', '')}").json()
    return job


def requests_of(app):
    """Yield (method, path) of every route: a new one cannot be forgotten."""
    for route in app.app.routes:
        path = route.path.replace("{number:int}", "1").replace("{name}", "lab.js")
        assert "{" not in path, f"say here what stands for a part of {route.path}"
        for method in sorted(route.methods - {"HEAD"}):
            yield method, path
    yield "GET", "/no/such/page"
    yield "POST", "/api/no/such/page"


def asked(client, method, path, **headers):
    return client.request(method, path, headers=headers, content=b"{}" if method == "POST" else None)


def test_every_route_is_open_to_the_page(app, page):
    statuses = {path: asked(page, method, path).status_code for method, path in requests_of(app)}
    assert 403 not in statuses.values()
    assert statuses["/files/lab.js"] == statuses["/api/model"] == 200


def test_every_route_refuses_whoever_has_no_token(app, stranger):
    for method, path in requests_of(app):
        assert asked(stranger, method, path).status_code == 403, path


def test_every_route_refuses_a_wrong_token_and_a_wrong_cookie(app, stranger, keys):
    for method, path in requests_of(app):
        wrong = {TOKEN_HEADER: keys.token[:-1], "cookie": f"softlookup-lab-x={keys.cookie[:-1]}"}
        assert asked(stranger, method, f"{path}?token={keys.token}x", **wrong).status_code == 403, path


def test_the_cookie_alone_does_not_open_the_model(app, stranger, keys):
    for method, path in requests_of(app):
        if path.startswith("/api/"):
            with_cookie = {"cookie": f"softlookup-lab-x={keys.cookie}"}
            assert asked(stranger, method, path, **with_cookie).status_code == 403, path


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.7:8765",
     "127.0.0.1:8765@evil.example", "", "127.0.0.1:port"],
)  # fmt: skip
def test_every_route_refuses_a_foreign_host(app, page, keys, host):
    for method, path in requests_of(app):
        answer = asked(page, method, f"{path}?token={keys.token}", host=host)
        assert answer.status_code == 403, path


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://127.0.0.1:9999",
        "https://127.0.0.1:8765",
        "http://localhost:8765",
        "",
    ],
)
def test_every_route_refuses_a_foreign_origin(app, page, keys, origin):
    for method, path in requests_of(app):
        answer = asked(page, method, f"{path}?token={keys.token}", origin=origin)
        assert answer.status_code == 403, path


def test_every_route_but_the_printed_address_refuses_what_another_site_asks_for(app, page, keys):
    for method, path in requests_of(app):
        for site in ("cross-site", "same-site"):
            assert asked(page, method, path, **{"sec-fetch-site": site}).status_code == 403, path
    from_a_mail = {"sec-fetch-site": "cross-site"}
    assert asked(page, "GET", f"/?token={keys.token}", **from_a_mail).status_code == 200


def test_a_tunnel_may_end_at_another_port(app, page):
    there = {"host": "localhost:9000", "origin": "http://localhost:9000", "sec-fetch-site": "same-origin"}
    assert asked(page, "GET", "/api/model", **there).status_code == 200


def test_a_lab_for_all_addresses_is_served_by_address_but_not_by_name():
    keys = Keys(any_address=True)
    assert keys.serves("192.168.1.7:8765")
    assert keys.serves("[fe80::1]:8765")
    assert not keys.serves("evil.example:8765")


def test_web_sockets_are_closed_before_they_open(app, page):
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), page.websocket_connect("/api/jobs"):
        pass


def test_every_answer_has_the_strict_headers(app, page, stranger, keys):
    answers = [asked(client, *it) for client in (page, stranger) for it in requests_of(app)]
    answers.append(page.post("/api/jobs", content=b"x" * (MOST_BODY_BYTES + 1)))
    answers.append(page.delete("/api/jobs"))
    assert {it.status_code for it in answers} >= {200, 400, 403, 404, 405, 413}
    for answer in answers:
        for name, value in HEADERS.items():
            assert answer.headers.get_list(name) == [value], (answer.url, name)
    policy = HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'")


def test_the_cookie_is_for_this_site_and_not_for_scripts(app, keys):
    client = TestClient(app, base_url=ADDRESS)
    cookie = client.get(f"/?token={keys.token}").headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert keys.token.lower() not in cookie


def test_two_labs_have_secrets_of_their_own():
    one, other = Keys(), Keys()
    assert len({one.token, one.cookie, other.token, other.cookie}) == 4
    assert len(one.token) >= 40
    assert one.token not in repr(one)


def test_no_file_beside_those_of_the_page_can_be_reached(page):
    for name in (
        "index.html",
        "..%2fapp.py",
        "../app.py",
        "%2e%2e%2fguarding.py",
        "%2fetc%2fpasswd",
        "lab.js%00",
    ):
        assert page.get(f"/files/{name}").status_code == 404, name
    assert {Path(it).suffix for it in FILES} == {".js", ".css"}


def test_the_page_loads_nothing_from_elsewhere_and_has_no_code_in_it():
    pages = [*FILES.values(), next(iter(FILES.values())).parent / "index.html"]
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert "http://" not in text, path
        assert "https://" not in text, path
        for unsafe in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "style=",
            'onclick="',
        ):
            assert unsafe not in text, (path, unsafe)


def test_bodies_that_are_too_large_are_refused_whatever_their_header_says(page):
    assert page.post("/api/jobs", content=b"x" * (MOST_BODY_BYTES + 1)).status_code == 413
    unread = page.post("/api/jobs/1/cancel", content=b"x" * (MOST_BODY_BYTES + 1))
    assert unread.status_code == 413
    pieces = (b"x" * 4096 for _ in range(MOST_BODY_BYTES // 4096 + 2))
    assert page.post("/api/jobs", content=pieces).status_code == 413
    assert page.get("/api/model?" + "x" * 3000).status_code == 414


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b"nonsense", b"\xff\xfe", b"[" * 100_000, b'{"do": "no such"}', b'{"do": ["read"]}',
     b'{"do": "read"}', b'{"do": "read", "text": 7}', b'{"do": "map", "reading": 10000000000000}',
     b'{"do": "map", "reading": true}', b'{"do": "compare", "reading": 1, "at": -1}'],
)  # fmt: skip
def test_requests_that_make_no_sense_are_refused_in_words(page, body):
    answer = page.post("/api/jobs", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("lab: ")
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "text", [HOSTILE, "<b>" * 40, "x" * 100, "שלום " * 5, "\x00\x01\x7f", "\ud800", "🙂" * 20]
)
def test_hostile_text_comes_back_as_json_text(page, text):
    body = json.dumps({"do": "read", "text": text}).encode()
    job = page.post("/api/jobs", content=body).json()
    while job["state"] in ("waiting", "running"):
        answer = page.get(f"/api/jobs/{job['job']}?seen={job.get('seen', '')}")
        assert answer.headers["content-type"] == "application/json"
        answer.content.decode("ascii")
        job = answer.json()
    if text == "\ud800":  # half a character: no tokenizer reads it
        assert job["state"] == "failed"
        return
    assert job["state"] == "done", job
    tokens = job["result"]["tokens"]["text"]
    assert not any(ord(it) < 32 or it in "\u202e\x7f" for token in tokens for it in token)


def test_ten_thousand_characters_are_refused_in_words_where_they_are_too_many_tokens(page):
    job = done(page, do="read", text="</script>" * 1200)
    assert job["state"] == "failed"
    assert "at most 128 tokens" in job["error"]
    assert page.post("/api/jobs", json={"do": "read", "text": "x" * 20_001}).status_code == 400


def test_what_fails_inside_is_named_but_its_trace_stays_in_the_terminal(page, session, monkeypatch, caplog):
    def broken(*args, **kwargs):
        raise RuntimeError("secret\nsecond line")

    monkeypatch.setattr(session.texts.model, "forward", broken)
    job = done(page, do="read", text="the cat")
    assert (job["state"], job["error"]) == ("failed", "RuntimeError: secret")
    assert "Traceback" in caplog.text


def test_an_error_of_the_lab_itself_says_nothing_of_it(page, session, monkeypatch):
    def broken():
        raise RuntimeError("secret")

    monkeypatch.setattr(session, "about", broken)
    answer = page.get("/api/model")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    for name, value in HEADERS.items():
        assert answer.headers.get_list(name) == [value], name


def test_a_job_is_cancelled_before_its_next_forward(page, session):
    begun, go_on, after = threading.Event(), threading.Event(), []

    def work(progress):
        progress.said("first", 1, 2)
        begun.set()
        go_on.wait(10)
        progress.said("second", 2, 2)
        after.append("went on")

    job, waiting = (
        session.jobs.add("slow", work),
        session.jobs.add("never", lambda progress: after.append("ran")),
    )
    assert begun.wait(10)
    assert page.get(f"/api/jobs/{job.number}?seen=running-1").json()["words"] == "first"
    page.post(f"/api/jobs/{waiting.number}/cancel")
    page.post(f"/api/jobs/{job.number}/cancel")
    assert waiting.state == "cancelled"
    go_on.set()
    last = session.jobs.add("last", lambda progress: "done")
    while last.state != "done":
        page.get(f"/api/jobs/{last.number}")
    assert job.state == "cancelled"
    assert after == []


def test_the_queue_has_an_end(page, session):
    go_on = threading.Event()
    first = session.jobs.add("slow", lambda progress: go_on.wait(10))
    refused = None
    for _ in range(40):
        answer = page.post("/api/jobs", json={"do": "read", "text": "the cat"})
        if answer.status_code != 200:
            refused = answer.json()["error"]
            break
    go_on.set()
    assert "busy" in refused
    assert first.state != "failed"

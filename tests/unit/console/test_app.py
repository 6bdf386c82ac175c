"""The console without a cluster: what it says to browsers, whom it answers, and which forms it takes."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import httpx
import pytest

from kavka.client import ConsumerRecord
from kavka.console import sessions as sessions_of
from kavka.console import visits as visiting
from kavka.console import watching
from kavka.console.app import make_app
from kavka.console.reading import Found, shown
from kavka.console.rendering import ago, moment, query, render
from kavka.console.sessions import MOST_FAILURES, Seat, Sessions, SignInError
from kavka.console.settings import ConsoleSettings, read_settings
from kavka.console.visits import COOKIE, safe_path

NOBODY = "127.0.0.1:1"
SASL = {"security.protocol": "SASL_PLAINTEXT"}
FORM = {"content-type": "application/x-www-form-urlencoded"}

Visits = Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]]


def visited(visits: Visits, settings: ConsoleSettings | None = None) -> None:
    """Let a browser make some visits to a console whose cluster is not there."""

    async def run() -> None:
        app = make_app(settings or ConsoleSettings(NOBODY, hosts=("console.example",)))
        transport = httpx.ASGITransport(app)
        browser = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080")
        async with app.router.lifespan_context(app), browser as client:
            await visits(client)

    asyncio.run(run())


def test_every_answer_forbids_what_pages_need_not_do() -> None:
    async def visits(client: httpx.AsyncClient) -> None:
        for path in ("/", "/nope", "/static/console.js", "/healthz", "/static/../../app.py"):
            answer = await client.get(path)
            assert "script-src 'self'" in answer.headers["content-security-policy"]
            assert "'unsafe" not in answer.headers["content-security-policy"]
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["x-content-type-options"] == "nosniff"

    visited(visits)


def test_pages_have_no_script_and_no_style_of_their_own() -> None:
    async def visits(client: httpx.AsyncClient) -> None:
        for path in ("/", "/topics", "/groups", "/security", "/nope"):
            text = (await client.get(path)).text
            assert re.findall(r"<script(?![^>]*\bsrc=)|\bstyle=|\son\w+=|<style", text) == []

    visited(visits)


def test_a_cluster_that_is_not_there_is_explained() -> None:
    async def visits(client: httpx.AsyncClient) -> None:
        answer = await client.get("/")
        assert answer.status_code == 200
        assert "The cluster does not answer" in answer.text
        for path in ("/topics/orders", "/nodes", "/group?id=g"):
            answer = await client.get(path)
            assert answer.status_code == 503, path
            assert "See whether its nodes run" in answer.text

    visited(visits)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("localhost", 200),
        ("console.example:8080", 200),
        ("evil.example", 421),
        ("", 421),
        ("localhost.evil.example", 421),
    ],
)
def test_who_asks_by_a_name_that_is_not_ours_gets_nothing(host: str, status: int) -> None:
    async def visits(client: httpx.AsyncClient) -> None:
        answer = await client.get("/healthz", headers={"host": host})
        assert answer.status_code == status

    visited(visits)


def test_paths_lead_nowhere_else() -> None:
    async def visits(client: httpx.AsyncClient) -> None:
        for path in (
            "/static/%2e%2e/app.py",
            "/static/..%2f..%2fapp.py",
            "/topics/..%2f..%2fetc%2fpasswd",
            "/topics/a%00b",
            "/topics/%3Cscript%3E",
        ):
            answer = await client.get(path)
            assert answer.status_code == 404, path
            assert "import" not in answer.text
            assert "<script>" not in answer.text

    visited(visits)


def test_forms_that_this_console_did_not_make_are_refused() -> None:
    async def visits(client: httpx.AsyncClient) -> None:
        page = await client.get("/sign-in")
        token = re.search(r'name="csrf" value="(\w+)"', page.text)
        assert token is not None
        good = {"csrf": token[1], "user": "a", "password": "b", "mechanism": "PLAIN"}
        answer = await client.post("/sign-in", data={**good, "csrf": "0" * 64})
        assert answer.status_code == 403
        assert "Load the page again" in answer.text
        answer = await client.post("/sign-in", data=good, headers={"origin": "http://evil.example"})
        assert answer.status_code == 403
        answer = await client.post("/sign-in", json=good)
        assert answer.status_code == 415
        answer = await client.post("/sign-in", content=b"x" * (65 << 10), headers=FORM)
        assert answer.status_code == 413
        answer = await client.post("/sign-in", content=b"csrf=%ff&" * 500, headers=FORM)
        assert answer.status_code == 400
        answer = await client.post("/sign-in", data=good)
        assert answer.status_code == 403
        assert "refuse" in answer.text.lower()  # nobody is at that address
        client.cookies.clear()
        client.cookies.set(COOKIE, "somebody-elses-cookie-id")
        assert (await client.post("/sign-in", data=good)).status_code == 403

    visited(visits, ConsoleSettings(NOBODY, SASL, ("PLAIN",)))


def test_a_form_that_does_not_come_to_its_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visiting, "PAGE_SECONDS", 0.05)

    async def slow() -> AsyncIterator[bytes]:
        yield b"csrf="
        await asyncio.sleep(20)

    async def visits(client: httpx.AsyncClient) -> None:
        answer = await client.post("/sign-in", content=slow(), headers=FORM)
        assert (answer.status_code, "did not come within" in answer.text) == (408, True)

    visited(visits)


def test_whoever_has_not_signed_in_is_led_to_the_form_and_back_but_nowhere_else() -> None:
    async def visits(client: httpx.AsyncClient) -> None:
        answer = await client.get("/topics?search=a")
        assert answer.status_code == 303
        assert answer.headers["location"] == "/sign-in?next=%2Ftopics%3Fsearch%3Da"
        assert (await client.get("/topics", headers={"x-live": "1"})).status_code == 401
        page = (await client.get("/sign-in?next=//evil.example/")).text
        assert 'name="next" value="/"' in page

    visited(visits, ConsoleSettings(NOBODY, SASL, ("SCRAM-SHA-256", "GSSAPI")))


def test_metrics_are_for_those_who_have_signed_in_where_people_do() -> None:
    async def stranger(client: httpx.AsyncClient) -> None:
        assert (await client.get("/metrics")).status_code == 401
        assert (await client.get("/metrics", headers={"cookie": f"{COOKIE}={'x' * 32}"})).status_code == 401
        assert (await client.get("/healthz")).status_code == 503  # nobody is there, but it was asked for

    async def anybody(client: httpx.AsyncClient) -> None:
        assert (await client.get("/metrics")).status_code == 503

    visited(stranger, ConsoleSettings(NOBODY, SASL, ("PLAIN",), metrics=NOBODY))
    visited(anybody, ConsoleSettings(NOBODY, metrics=NOBODY))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (ConsoleSettings(NOBODY, registry="http://127.0.0.1:1"), "the schema registry cannot be reached"),
    ],
)
def test_a_registry_that_the_console_cannot_ask_is_explained(settings: ConsoleSettings, said: str) -> None:
    async def visits(client: httpx.AsyncClient) -> None:
        answer = await client.get("/schemas")
        assert (answer.status_code, said in answer.text) == (200, True)

    visited(visits, settings)


def test_a_registry_with_tls_that_the_console_does_not_trust_is_explained() -> None:
    async def visits(client: httpx.AsyncClient) -> None:
        answer = await client.get("/schemas")
        assert (answer.status_code, "schema.registry.ssl.truststore" in answer.text) == (200, True)

    def answer(plain: socket.socket) -> None:
        asked, _ = plain.accept()
        with asked:
            asked.recv(4096)
            asked.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as plain:
        answering = threading.Thread(target=answer, args=(plain,), daemon=True)
        answering.start()
        visited(visits, ConsoleSettings(NOBODY, registry=f"https://127.0.0.1:{plain.getsockname()[1]}"))
        answering.join(10)


@pytest.mark.parametrize("text", ["//evil", "/\\evil", "http://evil", "", "/a\r\nSet-Cookie: b", "javascript:1"])
def test_only_paths_of_this_console_are_led_to(text: str) -> None:
    assert safe_path(text) == "/"
    assert safe_path("/topics?search=a%20b") == "/topics?search=a%20b"


def test_a_read_only_console_changes_nothing() -> None:
    async def visits(client: httpx.AsyncClient) -> None:
        page = await client.get("/nope")
        id_ = client.cookies[COOKIE]
        assert page.status_code == 404
        app: Any = client._transport.app  # type: ignore[attr-defined]
        token = app.state.console.sessions.token(id_)
        for path in ("/topics/orders/produce", "/group/plan", "/group/reset"):
            answer = await client.post(path, data={"csrf": token, "id": "g"})
            assert (answer.status_code, "only shows" in answer.text) == (403, True)

    visited(visits, ConsoleSettings(NOBODY, read_only=True))


def test_sign_ins_are_counted_by_address_while_they_wait_but_not_where_nobody_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions_of, "SIGN_IN_SECONDS", 1.0)

    async def run(silent: socket.socket) -> None:
        sessions = Sessions(ConsoleSettings(f"127.0.0.1:{silent.getsockname()[1]}", SASL, ("PLAIN",)))

        async def attempt() -> str:
            with pytest.raises(SignInError) as refused:
                await sessions.sign_in("a", "b", "PLAIN", "1.2.3.4")
            return str(refused.value)

        said = await asyncio.gather(*(attempt() for _ in range(MOST_FAILURES + 1)))
        assert said[:-1] == ["the cluster does not answer"] * MOST_FAILURES
        assert said[-1].startswith("too many failed attempts")
        assert await attempt() == "the cluster does not answer"
        with pytest.raises(SignInError, match="not a mechanism"):
            await sessions.sign_in("a", "b", "GSSAPI", "1.2.3.5")
        assert sessions.seat("unknown") is None

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(run(silent))


def test_what_a_page_asks_for_by_itself_is_no_visit() -> None:
    id_ = "x" * 32

    async def visits(client: httpx.AsyncClient) -> None:
        app: Any = client._transport.app  # type: ignore[attr-defined]
        settings = ConsoleSettings(NOBODY, {**SASL, "sasl.mechanism": "PLAIN"})
        credentials = {"sasl.username": "a", "sasl.password": "b"}
        seat = Seat("a", settings.cluster(credentials))
        app.state.console.sessions._seats[id_] = seat
        client.cookies.set(COOKIE, id_)
        seat.used = began = seat.used - 60
        for headers in ({"x-live": "1"}, {"accept": "text/event-stream"}):
            assert (await client.get("/series", headers=headers)).status_code != 303
            assert seat.used == began
        assert (await client.get("/metrics")).status_code == 404
        assert seat.used == began
        await client.get("/series")
        assert seat.used > began

    visited(visits, ConsoleSettings(NOBODY, SASL, ("PLAIN",)))


def test_hostile_records_are_escaped() -> None:
    evil = b'<img src=x onerror="alert(1)">\'"</script><script>alert(2)</script>'
    headers = ((evil.decode(), evil), ("\u202e", b"\x00\xff"))
    record = asyncio.run(shown(ConsumerRecord("t", 0, 1, 1 << 62, evil, evil, headers)))
    shared: dict[str, Any] = {
        "path": "/topics/t", "section": "topics", "csrf": "x", "user": evil.decode(), "signs_in": True,
        "signed_in": True, "read_only": False, "has_registry": True, "stale": evil.decode(), "looked_at": 1.0,
        "version": "0", "topic": "t", "internal": False, "indexes": [0], "tab": "messages", "stored": 5, "rate": None,
    }  # fmt: skip
    found = Found([record], 1, False, {0: 2})
    asked = {"partition": "", "limit": 50, "filter": evil.decode(), "key": evil.decode(), "from": evil.decode()}
    text = render(
        "messages.html",
        {**shared, "found": found, "problem": evil.decode(), "filtered": True, "default": False, "asked": asked,
         "read_on": "0:2", "limits": (50,), "place_help": "x"},
    )  # fmt: skip
    text += render("record.html", {**shared, "record": record, "partition": 0})
    assert "<img src=x" not in text
    assert "<script>" not in text
    assert "onerror=&#34;" in text
    assert "\u202e" not in text


def test_words_and_numbers() -> None:
    assert moment(0) == "1970-01-01 00:00:00.000"
    assert moment(-1) == "no time"
    assert moment(1 << 62) == f"@{1 << 62}"
    assert ago(-1) == "never"
    assert query({"a": "x y", "b": ""}, page=2) == "?a=x+y&page=2"


def test_settings_come_from_the_node_as_json() -> None:
    line = (
        b'{"bootstrap": "h:1", "security": {"security.protocol": "SASL_SSL"}, "mechanisms": ["PLAIN", "GSSAPI"], '
        b'"metrics": null, "registry": null, "read_only": true, "hosts": ["h"], "log_level": "info", '
        b'"log_format": "text"}\n'
    )
    settings = read_settings(line)
    assert (settings.signs_in, settings.offered, settings.read_only) == (True, ["PLAIN"], True)
    assert not ConsoleSettings("h:1", {**SASL, "sasl.username": "a", "sasl.password": "b"}).signs_in


def test_nobody_is_asked_while_nobody_looks() -> None:
    async def run() -> None:
        watch = watching.Watch(NOBODY)
        now = asyncio.get_running_loop().time()
        assert watch.due(now) == (False, False)
        watch.touch()
        assert watch.due(now + 1) == (True, True)
        await watch.look_now()
        assert watch.error is not None
        assert watch.due(now + 1)[0] is False
        assert watch.due(now + watching.WATCHED_SECONDS + 1) == (False, False)

    asyncio.run(run())

"""The console in a real browser: every page, what its script does, and whether people can use it.

`KAVKA_CAPTURES=write` puts a picture of the overview in place of that in docs/captures.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.client import Acl, AclOperation, AclPattern, AclPermission, AclResource
from kavka.client.blocking import Client
from kavka.testing import Cluster
from kavka.testing.local import free_ports
from kavka.testing.secured import Secured

Shot = Callable[[Any, str], None]

CAPTURE = Path(__file__).parents[2] / "docs" / "captures" / "console.png"
WIDE = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}
IN_SIGHT = """(element) => {
    const at = element.getBoundingClientRect();
    return at.width > 0 && at.left >= 0 && at.right <= innerWidth + 1;
}"""
PAGES = {
    "overview": "/",
    "topics": "/topics",
    "messages": "/topics/orders",
    "record": "/topics/orders/record?partition=0&offset=1",
    "live": "/topics/orders/live",
    "produce": "/topics/empty/produce",
    "partitions": "/topics/orders/partitions",
    "config": "/topics/orders/config",
    "groups": "/groups",
    "group": "/group?id=billing",
    "classic-group": "/group?id=shipping",
    "consumer-group": "/group?id=pricing",
    "share-group": "/group?id=workers",
    "streams-group": "/group?id=counting",
    "nodes": "/nodes",
    "security": "/security?principal=alice&name=orders",
    "schemas": "/schemas",
    "schema": "/schemas?subject=clicks-value",
    "pipelines": "/pipelines",
    "pipeline": "/pipeline?name=shop&flow=orders",
    "tiers": "/tiers",
    "empty": "/topics/empty",
    "missing": "/topics/nowhere",
}


@pytest.fixture
def page(chromium: Any, node: Cluster) -> Iterator[Any]:
    """A new browser of somebody, at the console; its script may have no errors."""
    with opened(chromium, node.console) as made:
        yield made


class opened:  # noqa: N801
    """A page in a browser of its own, that fails the test when its script or the policy complains."""

    def __init__(self, chromium: Any, url: str, **options: Any) -> None:
        self._context = chromium.new_context(base_url=url, viewport=WIDE, **options)
        self._complaints: list[str] = []

    def __enter__(self) -> Any:
        made = self._context.new_page()
        made.on("pageerror", lambda error: self._complaints.append(str(error)))
        made.on("console", self._heard)
        return made

    def _heard(self, message: Any) -> None:
        if message.type == "error" and "status of 40" not in message.text and "status of 503" not in message.text:
            self._complaints.append(message.text)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._context.close()
        if kind is None:
            assert self._complaints == []


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_drawn_wide_dark_and_on_a_phone(page: Any, name: str, shot: Shot) -> None:
    page.goto(PAGES[name])
    page.wait_for_selector("h1")
    if page.locator(".chart").count():
        page.wait_for_selector(".chart:not(.waiting) canvas", timeout=60_000)
    if name == "overview":
        page.wait_for_selector("#health .findings")
        page.wait_for_selector("#busy table")
    shot(page, f"wide-{name}")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 21, 29)"
    shot(page, f"dark-{name}")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for here in page.locator("nav [aria-current]").all():
        page.wait_for_function(IN_SIGHT, arg=here.element_handle())
    shot(page, f"phone-{name}")


def test_on_a_phone_the_lag_of_each_partition_is_in_sight(page: Any) -> None:
    page.set_viewport_size(PHONE)
    page.goto(PAGES["group"])
    page.wait_for_function(IN_SIGHT, arg=page.locator("#rows th", has_text="Lag").element_handle())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_people_who_hear_or_use_keys_can_use_every_page(chromium: Any, node: Cluster, axe: str, scheme: str) -> None:
    context = chromium.new_context(base_url=node.console, viewport=WIDE, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    found: dict[str, list[str]] = {}
    for name, path in PAGES.items():
        page.goto(path)
        page.evaluate(axe)
        result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious = [each for each in result["violations"] if each["impact"] in ("serious", "critical")]
        if serious:
            found[name] = [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in serious]
    context.close()
    assert found == {}


def test_the_live_tail_shows_what_arrives_with_a_filter_and_pauses(page: Any, node: Cluster, shot: Shot) -> None:
    page.goto("/topics/payments/live")
    page.get_by_label("Filter").fill("wanted")
    page.get_by_role("button", name="Apply").click()
    page.wait_for_selector("#tail-state.good")
    with Client(node.bootstrap) as client, client.producer() as producer:
        evil = b'{"wanted": "<img src=x onerror=alert(1)>"}'
        producer.send("payments", b"other").result()
        producer.send("payments", evil, key=b"<i>").result()
        page.wait_for_selector("#tail tbody tr")
        assert page.locator("#tail tbody tr").count() == 1
        assert page.locator("#tail td.value summary").inner_text() == evil.decode()
        assert page.locator("#tail img, #tail i").count() == 0
        page.locator("#tail summary").click()
        shot(page, "live-tail")
        page.get_by_role("button", name="Pause").click()
        producer.send("payments", b"wanted again").result()
        page.get_by_role("button", name="Go on").click()
        page.wait_for_selector("#tail-state.good")
        producer.send("payments", b"wanted at last").result()
        page.wait_for_selector("text=wanted at last")
        assert page.get_by_text("wanted again").count() == 0


def test_messages_are_filtered_opened_and_never_run(page: Any, shot: Shot) -> None:
    page.goto("/topics/orders")
    page.get_by_label("Filter").fill(".customer=c-3")
    page.get_by_role("button", name="Show").click()
    assert 15 <= page.locator("tbody tr").count() <= 18
    page.locator("summary").first.click()
    assert '"customer": "c-3"' in page.locator("details[open] pre").inner_text()
    shot(page, "messages-filtered")
    page.get_by_label("Filter").fill("/(/")
    page.get_by_role("button", name="Show").click()
    assert "no regular expression" in page.get_by_role("alert").inner_text()
    page.goto("/topics/payments")
    assert page.locator("tbody tr").count() >= 2
    assert "owned" not in page.title()
    shot(page, "messages-hostile")


def test_a_record_is_produced_and_looked_at(page: Any, shot: Shot) -> None:
    page.goto("/topics/orders/produce")
    page.get_by_label("Key", exact=True).fill("from-the-browser")
    page.get_by_label("Value", exact=True).fill('{"hello": "world"}')
    page.get_by_label("Headers").fill("who: me")
    page.get_by_role("button", name="Produce").click()
    page.get_by_role("link", name="Look at it").click()
    assert "from-the-browser" in page.locator("main").inner_text()
    assert '"hello": "world"' in page.locator("main").inner_text()
    shot(page, "record-produced")


def test_offsets_are_reset_only_after_a_dry_run(page: Any, node: Cluster, shot: Shot) -> None:
    page.goto("/group?id=reporting")
    page.get_by_label("Place").fill("start")
    page.get_by_role("button", name="Dry run").click()
    assert "nothing was changed yet" in page.locator(".plan").inner_text()
    shot(page, "group-dry-run")
    with Client(node.bootstrap) as client:
        assert {found.offset for found in client.admin.group_offsets("reporting").values()} == {1}
        page.get_by_role("button", name="Reset 6 offsets").click()
        assert "goes on elsewhere in 6 partitions" in page.get_by_role("status").first.inner_text()
        assert {found.offset for found in client.admin.group_offsets("reporting").values()} == {0}


def test_keys_stars_and_the_theme(page: Any) -> None:
    page.goto("/topics")
    page.keyboard.press("/")
    page.keyboard.type("ord")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics?search=ord")
    assert page.locator("tbody tr").count() == 1
    page.get_by_role("button", name="Favourite orders").click()
    assert page.locator("#favourites a").inner_text() == "orders"
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/orders")
    assert page.get_by_role("button", name="Favourite orders").get_attribute("aria-pressed") == "true"
    page.keyboard.press("d")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("g")
    page.keyboard.press("n")
    page.wait_for_url("**/nodes")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()


def test_the_overview_follows_what_happens(page: Any, node: Cluster, shot: Shot) -> None:
    page.goto("/")
    stop = threading.Event()

    def busy() -> None:
        with Client(node.bootstrap) as client, client.producer() as producer:
            while not stop.wait(0.02):
                for topic, count in (("clicks", 40), ("orders", 8), ("payments", 3)):
                    for _ in range(count):
                        producer.send(topic, b'{"n": 1}' * 20)

    worker = threading.Thread(target=busy)
    worker.start()
    try:
        deadline = time.monotonic() + 30
        while float(page.locator("#figures b").nth(4).inner_text().replace(",", "").replace("–", "0")) < 100:
            assert time.monotonic() < deadline, "no rate was shown"
            page.wait_for_timeout(200)
        data: list[list[float | None]] = [[], []]
        captures = os.environ.get("KAVKA_CAPTURES") == "write"
        while sum((number or 0) > 100 for number in data[1]) < (20 if captures else 6):  # a chart worth looking at
            assert time.monotonic() < deadline + 120, "no chart was drawn"
            page.wait_for_timeout(500)
            data = page.evaluate("fetch('/series?of=records').then((answer) => answer.json())")
        shot(page, "overview-busy")
        if captures:
            page.screenshot(path=CAPTURE)
    finally:
        stop.set()
        worker.join()
    assert max(number or 0 for number in data[1]) > 100


def test_sign_in_with_and_without_rights(chromium: Any, tmp_path: Path, shot: Shot) -> None:
    secured = Secured(tmp_path / "secured", {"anna": "anna-secret", "mallory": "mallory-secret"})
    config = {
        "listeners": f"SASL_SSL://127.0.0.1:{free_ports(1)[0]}",
        **secured.nodes,
        "kavka.console.listener": "127.0.0.1:0",
    }
    with Cluster(config=config, users=secured.users) as node:
        with Client(node.bootstrap, security=secured.client()) as client:
            client.admin.create_topic("orders", partitions=1)
            rule = (AclPattern.LITERAL, AclOperation.READ, "User:anna", "*", AclPermission.ALLOW)
            client.admin.create_acls([Acl(AclResource.TOPIC, "orders", *rule)])
        with opened(chromium, node.console) as page:
            page.goto("/topics/orders")
            sign_in(page, "anna", "nonsense")
            assert page.get_by_role("alert").is_visible()
            shot(page, "sign-in")
            sign_in(page, "anna", "anna-secret")
            page.wait_for_url("**/topics/orders")
            assert "No messages here" in page.locator("main").inner_text()
            page.goto("/topics/orders/produce")
            page.get_by_label("Value", exact=True).fill("x")
            page.get_by_role("button", name="Produce", exact=True).click()
            assert "It was not produced" in page.get_by_role("alert").inner_text()
            shot(page, "without-right-to-write")
            page.get_by_role("button", name="Sign out").click()
            page.wait_for_url("**/sign-in**")
            sign_in(page, "mallory", "mallory-secret")
            page.goto("/topics/orders")
            assert "Not allowed" in page.locator("main").inner_text()
            shot(page, "without-rights")
        with opened(chromium, node.console) as page:
            page.goto("/security")
            sign_in(page, "admin", secured.passwords["admin"])
            page.get_by_label("Who").fill("User:anna")
            page.get_by_label("named").fill("orders")
            page.get_by_role("button", name="Ask").click()
            assert page.get_by_role("status").inner_text().startswith("Yes")
            shot(page, "may-they")


def sign_in(page: Any, user: str, password: str) -> None:
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_load_state()


def test_what_the_page_may_load_comes_from_the_console(page: Any, node: Cluster) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/")
    page.wait_for_selector(".chart canvas")
    assert asked
    assert [url for url in asked if not url.startswith(node.console)] == []
    assert json.dumps(page.context.cookies()).count('"httpOnly": true') == 1

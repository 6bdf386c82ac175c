"""The console of a running node, asked as a browser asks."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import httpx
import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.client import Acl, AclPattern, AclPermission, AclResource, ConsumerRecord, Pool
from kavka.client.blocking import Client
from kavka.console import reading
from kavka.console.app import make_app
from kavka.console.pages import groups
from kavka.console.sessions import MOST_FAILURES
from kavka.console.settings import ConsoleSettings
from kavka.model.pipelines import STATUS_TOPIC, BatchReport, FlowReport, SourcePosition, TableReport
from kavka.model.types import TopicPartition as Place
from kavka.testing import Cluster
from kavka.testing.local import free_ports
from kavka.testing.secured import Secured
from scale import rounds

CONSOLE = {"kavka.console.listener": "127.0.0.1:0"}
EVIL = b"<script>alert(1)</script>\"'\x00\xe2\x80\xae"
LARGE = 10_000_000


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster(config={**CONSOLE, "kavka.registry.listener": "127.0.0.1:0", "message.max.bytes": "20000000"}) as made:
        yield made


@pytest.fixture
def browser(node: Cluster) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=node.console, timeout=30) as client:
        yield client


def until(found: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What is found as soon as it is."""
    deadline = time.monotonic() + seconds
    while not (result := found()):
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)
    return result


def create(node: Cluster, *names: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    made = admin.create_topics([NewTopic(name, partitions, 1) for name in names], operation_timeout=30)
    for future in made.values():
        future.result()


def produce(node: Cluster, topic: str, *values: bytes | None, key: bytes | None = None) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "message.max.bytes": 20_000_000})
    for value in values:
        producer.produce(topic, value, key)
    assert producer.flush(30) == 0


def token(page: httpx.Response) -> str:
    found = re.search(r'name="csrf" value="(\w+)"', page.text)
    assert found is not None, page.text
    return found[1]


def consoles(pid: int) -> list[psutil.Process]:
    """The console's processes of a node."""
    return [child for child in psutil.Process(pid).children() if "kavka.console" in child.cmdline()]


def test_the_ready_file_has_the_address_and_every_page_is_there(node: Cluster, browser: httpx.Client) -> None:
    create(node, "pages")
    produce(node, "pages", b"one")
    assert node.node(1).ready["console"] == node.console.removeprefix("http://")
    paths = ["/", "/topics", "/groups", "/nodes", "/security", "/schemas", "/pipelines", "/tiers", "/topics/pages"]
    paths += [f"/topics/pages/{tab}" for tab in ("live", "produce", "partitions", "config")]
    paths += ["/topics/pages/record?partition=0&offset=0", "/series?of=records", "/metrics", "/healthz", "/readyz"]
    assert {path: browser.get(path).status_code for path in paths} == dict.fromkeys(paths, 200)
    assert "kavka_partitions" in browser.get("/metrics").text
    assert node.cluster_id in browser.get("/").text
    assert node.node(1).ready["metrics"] is None


def test_any_other_client_sees_what_is_produced_here(node: Cluster, browser: httpx.Client) -> None:
    create(node, "sent", partitions=2)
    page = browser.get("/topics/sent/produce")
    form = {"csrf": token(page), "key": "k", "value": '{"a":\r\n1}', "headers": "trace: 7\nempty:", "partition": "1"}
    answer = browser.post("/topics/sent/produce", data=form)
    assert answer.status_code == 303
    assert "partition 1 at offset 0" in browser.get(answer.headers["location"]).text
    browser.post("/topics/sent/produce", data={**form, "tombstone": "1", "headers": ""})
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "x", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("sent", 1, 0)])
    first, second = consumer.consume(2, 20)
    consumer.close()
    assert (first.key(), first.value()) == (b"k", b'{"a":\n1}')
    assert first.headers() == [("trace", b"7"), ("empty", b"")]
    assert second.value() is None
    bad = browser.post("/topics/sent/produce", data={**form, "headers": "no colon"})
    assert (bad.status_code, "name: value" in bad.text) == (400, True)
    bad = browser.post("/topics/sent/produce", data={**form, "partition": "9"})
    assert (bad.status_code, "It was not produced" in bad.text) == (400, True)


def test_a_record_is_produced_by_the_schemas_of_its_topic(node: Cluster, browser: httpx.Client) -> None:
    create(node, "typed")
    fields = [{"name": "id", "type": "long"}]
    schema = {"schema": json.dumps({"type": "record", "name": "Order", "fields": fields})}
    id_ = httpx.post(f"{node.registry}/subjects/typed-value/versions", json=schema).json()["id"]
    page = browser.get("/topics/typed/produce")
    assert "by the latest schema of typed-value" in page.text
    form = {"csrf": token(page), "key": "k", "value": '{"id":\r\n7}', "value_schema": "1"}
    assert browser.post("/topics/typed/produce", data=form).status_code == 303
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "x", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("typed", 0, 0)])
    (record,) = consumer.consume(1, 20)
    consumer.close()
    assert (record.key(), record.value()) == (b"k", b"\0" + id_.to_bytes(4, "big") + bytes([7 << 1]))
    assert "&#34;id&#34;" in browser.get("/topics/typed").text
    for wrong, reason in (
        ({"value": '{"id": "x"}'}, "cannot be written by typed-value"),
        ({"value": "{"}, "the value is not JSON"),
        ({"value": "[" * 100_000}, "the value is not JSON"),
        ({"key_schema": "1", "key": "7"}, "cannot be written by typed-key"),
    ):
        bad = browser.post("/topics/typed/produce", data={**form, **wrong})
        assert (bad.status_code, reason in bad.text) == (400, True), bad.text


def test_messages_are_found_by_offset_time_key_and_filter(node: Cluster, browser: httpx.Client) -> None:
    create(node, "found", partitions=3)
    began = int(time.time() * 1000)
    for number in range(90):
        produce(node, "found", json.dumps({"n": number, "who": "anna"}).encode(), key=b"k%d" % number)

    def values(**asked: Any) -> list[int]:
        text = browser.get("/topics/found", params=asked).text
        return [int(number) for number in re.findall(r"<summary><code>\{&#34;n&#34;: (\d+)", text)]

    assert len(values()) == 50
    assert sorted(values(limit=250)) == list(range(90))
    assert values(filter=".n=17") == [17]
    assert values(key="k33") == [33]
    assert sorted(values(filter='/"n": 8[0-2],/')) == [80, 81, 82]
    assert sorted(values(**{"from": f"@{began - 1}", "limit": 250})) == list(range(90))
    assert values(**{"from": "@9999999999999"}) == []
    one = values(partition=1, **{"from": "0", "limit": 5})
    page = browser.get("/topics/found", params={"partition": 1, "from": "0", "limit": 5})
    onward = re.search(r'rel="next" href="([^"]+)"', page.text)
    assert onward is not None
    after = browser.get(onward[1].replace("&amp;", "&")).text
    assert len(one) == 5
    assert not set(one) & {int(number) for number in re.findall(r"<summary><code>\{&#34;n&#34;: (\d+)", after)}
    assert browser.get("/topics/found", params={"from": "yesterday"}).status_code == 400


def test_a_slow_filter_stops_in_time_and_the_next_page_goes_on_there(
    node: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "READ_SECONDS", 1.0)
    create(node, "slow")
    produce(node, "slow", *[b"x"] * 200)

    def slow(record: ConsumerRecord) -> bool:
        time.sleep(0.05)
        return True

    async def read() -> reading.Found:
        async with Pool(node.bootstrap) as pool:
            return await reading.read_records(pool, "slow", "start", slow, limit=1000)

    found = asyncio.run(read())
    assert 0 < found.scanned < 100
    assert (found.complete, found.positions) == (False, {0: found.scanned})


def test_hostile_records_are_harmless_and_large_ones_bounded(node: Cluster, browser: httpx.Client) -> None:
    create(node, "hostile")
    produce(node, "hostile", EVIL, b"\xff" * 100, b"x" * LARGE, b"[" * 100_000, None, b"", key=EVIL)
    page = browser.get("/topics/hostile", params={"from": "start"})
    assert page.status_code == 200
    assert "<script>alert" not in page.text
    assert len(page.content) < 100_000
    assert "9.5 MiB" in page.text
    large = browser.get("/topics/hostile/record?partition=0&offset=2")
    assert len(large.content) < 600_000
    raw = browser.get("/topics/hostile/raw?partition=0&offset=0")
    assert raw.content == EVIL
    assert raw.headers["content-disposition"].startswith("attachment")
    assert raw.headers["content-type"] == "application/octet-stream"
    assert browser.get("/topics/hostile/record?partition=0&offset=99").status_code == 404
    assert browser.get(f"/topics/hostile/record?partition=0&offset={10**25}").status_code == 400


@pytest.mark.parametrize(
    ("schema", "content"),
    [
        ({"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}, b"\x02" * 5000 + b"\0"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2_000_000},
            b"\xc0\xee\x6d" + b"\x7f" * 900_000,
        ),
    ],
    ids=["deep", "decimal"],
)
def test_what_would_end_or_stop_a_reader_of_schemas_is_shown_as_it_is(
    node: Cluster, browser: httpx.Client, schema: dict[str, Any], content: bytes
) -> None:
    topic = f"bomb-{schema['type']}"
    answer = httpx.post(f"{node.registry}/subjects/{topic}-value/versions", json={"schema": json.dumps(schema)})
    create(node, topic)
    produce(node, topic, b"\0" + answer.json()["id"].to_bytes(4, "big") + content)
    page = browser.get(f"/topics/{topic}")
    assert page.status_code == 200
    assert "not read" in page.text


def test_the_live_tail_shows_what_arrives_and_only_what_fits(node: Cluster, browser: httpx.Client) -> None:
    create(node, "tailed")
    produce(node, "tailed", b"before")
    seen: list[dict[str, Any]] = []
    with browser.stream("GET", "/topics/tailed/events?filter=wanted") as events:
        assert events.headers["content-type"].startswith("text/event-stream")
        for line in events.iter_lines():
            if line == ": alive" and not seen:
                produce(node, "tailed", b"other", b"wanted <b>", EVIL)
            if line.startswith("data: "):
                seen += json.loads(line.removeprefix("data: "))["records"]
                break
    assert [record["value"]["text"] for record in seen] == ["wanted <b>"]


def test_a_browser_that_takes_nothing_costs_nothing(node: Cluster, browser: httpx.Client) -> None:
    create(node, "stuck")
    host, port = node.console.removeprefix("http://").split(":")
    stuck = [socket.create_connection((host, int(port))) for _ in range(5)]
    for sock in stuck:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(b"GET /topics/stuck/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    process = until(lambda: consoles(node.pid))[0]
    produce(node, "stuck", *[b"x" * 1000] * 20_000)
    before = process.memory_info().rss
    produce(node, "stuck", *[b"x" * 1000] * 50_000)
    assert browser.get("/topics/stuck").status_code == 200
    assert process.memory_info().rss - before < 50_000_000
    for sock in stuck:
        sock.close()


def test_offsets_are_reset_after_a_dry_run(node: Cluster, browser: httpx.Client) -> None:
    create(node, "read")
    produce(node, "read", *(b"%d" % number for number in range(10)))
    for group in ("classic-one", "consumer-one"):
        protocol = group.partition("-")[0]
        options = {"group.id": group, "auto.offset.reset": "earliest", "group.protocol": protocol}
        consumer = Consumer({"bootstrap.servers": node.bootstrap, **options})
        consumer.subscribe(["read"])
        assert len(consumer.consume(10, 30)) == 10
        consumer.commit(asynchronous=False)
        busy = browser.get("/group", params={"id": group})
        assert "1 member<" in busy.text
        refused = browser.post("/group/plan", data={"csrf": token(busy), "id": group, "how": "to", "place": "start"})
        assert "the group has members" in refused.text
        assert 'action="/group/reset"' not in refused.text
        consumer.close()
        reset(node, browser, group)


def reset(node: Cluster, browser: httpx.Client, group: str) -> None:
    with Client(node.bootstrap) as client:
        admin = client.admin
        until(lambda: admin.describe_group(group).state == "Empty")
        page = browser.get("/group", params={"id": group})
        asked = {"csrf": token(page), "id": group, "topic": "read", "how": "shift", "place": "-4"}
        plan = browser.post("/group/plan", data=asked)
        assert "Dry run" in plan.text
        ((tp, found),) = admin.group_offsets(group).items()
        assert found.offset == 10
        packed = re.search(r'name="plan" value="([^"]+)"', plan.text)
        assert packed is not None
        answer = browser.post(
            "/group/reset", data={"csrf": token(plan), "id": group, "plan": packed[1].replace("&#34;", '"')}
        )
        assert answer.status_code == 303
        assert admin.group_offsets(group)[tp].offset == 6
        for damaged in ("", "[]", '[["read", 0, -1]]', '[["read", "0", 1]]', "{}", "[" * 9999):
            bad = browser.post("/group/reset", data={"csrf": token(plan), "id": group, "plan": damaged})
            assert bad.status_code == 400
        assert admin.group_offsets(group)[tp].offset == 6
        bad = browser.post("/group/plan", data={**asked, "place": "yesterday"})
        assert (bad.status_code, "a number of records" in bad.text) == (400, True)


def test_the_lag_of_a_group_counts_partitions_that_are_not_shown(
    node: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MOST_ROWS", 1)
    create(node, "many", partitions=3)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for partition in range(3):
        producer.produce("many", b"x", partition=partition)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "many-readers"})
    consumer.commit(offsets=[TopicPartition("many", partition, 0) for partition in range(3)], asynchronous=False)
    consumer.close()

    async def visit() -> str:
        app = make_app(ConsoleSettings(node.bootstrap))
        browser = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")
        async with app.router.lifespan_context(app), browser as client:
            return (await client.get("/group", params={"id": "many-readers"})).text

    text = asyncio.run(visit())
    assert "lag <b>3</b>" in text
    assert text.count(">nobody<") == 1


def test_the_lag_of_a_group_that_has_committed_nothing_is_not_known(node: Cluster, browser: httpx.Client) -> None:
    create(node, "unread")
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "beginners", "enable.auto.commit": False})
    consumer.subscribe(["unread"])
    until(lambda: consumer.poll(0.1) or consumer.assignment())
    page = until(
        lambda: (text := browser.get("/group", params={"id": "beginners"}).text) and ">unread<" in text and text
    )
    consumer.close()
    assert "lag <b>–</b>" in page


def test_share_groups_are_shown_and_reset(node: Cluster, browser: httpx.Client) -> None:
    create(node, "shared")
    produce(node, "shared", *(b"%d" % number for number in range(5)))
    with Client(node.bootstrap) as client:
        admin = client.admin
        tp = Place("shared", 0)
        admin.alter_share_group_offsets("workers", {tp: 0})
        until(lambda: "workers" in browser.get("/groups").text)
        page = browser.get("/group", params={"id": "workers"})
        assert ">share<" in page.text
        asked = {"csrf": token(page), "id": "workers", "topic": "", "how": "to", "place": "3"}
        plan = browser.post("/group/plan", data=asked)
        packed = re.search(r'name="plan" value="([^"]+)"', plan.text)
        assert packed is not None
        form = {"csrf": token(plan), "id": "workers", "plan": packed[1].replace("&#34;", '"')}
        assert browser.post("/group/reset", data=form).status_code == 303
        assert admin.share_group_offsets("workers")[tp].start_offset == 3


def test_groups_with_any_name_are_shown(node: Cluster, browser: httpx.Client) -> None:
    create(node, "named")
    name = 'a/b <i>"?&#%\u202e'
    with Client(node.bootstrap) as client:
        admin = client.admin
        admin.alter_group_offsets(name, {Place("named", 0): 0})
    page = browser.get("/group", params={"id": name})
    assert page.status_code == 200
    assert "<i>" not in page.text
    assert browser.get("/group", params={"id": "nobody"}).status_code == 404
    assert browser.get("/group").status_code == 404


def test_rates_and_lag_are_measured(node: Cluster, browser: httpx.Client) -> None:
    create(node, "measured")
    browser.get("/")

    def rate() -> bool:
        produce(node, "measured", *[b"x"] * 50)
        numbers = browser.get("/series", params={"of": "topic measured"}).json()[1]
        return any(number for number in numbers if number)

    assert until(rate)
    assert "measured" in browser.get("/topics?sort=rate").text


def test_who_is_furthest_behind_is_found_among_hundreds_of_groups(node: Cluster, browser: httpx.Client) -> None:
    create(node, "followed")
    produce(node, "followed", *[b"x"] * 500)
    place = Place("followed", 0)
    with Client(node.bootstrap) as client:
        for number in range(260):
            client.admin.alter_group_offsets(f"follower-{number:03}", {place: 400})
        client.admin.alter_group_offsets("zoe", {place: 7})
    row = re.compile(r">zoe</a>.*?>493<", re.DOTALL)
    assert until(lambda: row.search(browser.get("/").text))
    assert until(lambda: row.search(browser.get("/groups?sort=lag").text))
    assert 'class="num">100<' in browser.get("/groups?search=follower-259").text


def test_schemas_of_the_nodes_registry(node: Cluster, browser: httpx.Client) -> None:
    schema = {"schema": json.dumps({"type": "record", "name": "Evil", "doc": "<b>", "fields": []})}
    answer = httpx.post(f"{node.registry}/subjects/my-value/versions", json=schema)
    assert answer.status_code == 200
    assert "my-value" in browser.get("/schemas").text
    page = browser.get("/schemas", params={"subject": "my-value"}).text
    assert "Evil" in page
    assert "<b>" not in page.split("<pre", 1)[1]
    assert browser.get("/schemas", params={"subject": "../../x"}).status_code == 404


def test_a_console_that_dies_is_started_again_where_it_was_and_ends_with_its_node() -> None:
    with Cluster(config=CONSOLE) as node:
        (process,) = until(lambda: consoles(node.pid))
        assert httpx.get(f"{node.console}/healthz").text == "ok\n"
        process.kill()
        assert httpx.get(f"{node.console}/healthz", timeout=30).text == "ok\n"
        (again,) = until(lambda: [each for each in consoles(node.pid) if each.pid != process.pid])
        node.kill()
        again.wait(20)
        assert not again.is_running()
    with Cluster(config=CONSOLE) as node:
        (process,) = until(lambda: consoles(node.pid))
        node.stop()
        process.wait(20)
        assert not process.is_running()


def test_a_cluster_without_a_quorum_is_shown_and_explained() -> None:
    with Cluster(nodes=3, config=CONSOLE) as cluster, httpx.Client(base_url=cluster.console, timeout=60) as browser:
        create(cluster, "kept")
        until(lambda: "kept" in browser.get("/topics").text)
        cluster.kill(2)
        cluster.kill(3)
        page = until(lambda: (found := browser.get("/nodes").text) and "There is no leader" in found and found)
        assert "Start controllers until a majority" in page
        until(lambda: 'class="problem"' in browser.get("/").text, 60)


@contextmanager
def signed_in(url: str, user: str, password: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=30) as client:
        form = {"csrf": token(client.get("/sign-in")), "user": user, "password": password, "next": "/topics"}
        answer = client.post("/sign-in", data={**form, "mechanism": "SCRAM-SHA-512"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/topics")
        yield client


def test_who_signs_in_sees_and_does_what_they_may(tmp_path: Path) -> None:
    secured = Secured(tmp_path / "secured", {"anna": "anna-secret", "mallory": "mallory-secret"})
    config = {"listeners": f"SASL_SSL://127.0.0.1:{free_ports(1)[0]}", **secured.nodes, **CONSOLE}
    with Cluster(config=config, users=secured.users) as node:
        with Client(node.bootstrap, security=secured.client()) as client:
            admin = client.admin
            admin.create_topic("open", partitions=1)
            admin.create_topic("closed", partitions=1)
            for operation in (3, 4):  # read, write
                admin.create_acls([_allow("anna", operation, "open")])
        with httpx.Client(base_url=node.console, timeout=30) as stranger:
            assert stranger.get("/topics").headers["location"].startswith("/sign-in")
            form = {"csrf": token(stranger.get("/sign-in")), "user": "anna", "password": "wrong"}
            refused = stranger.post("/sign-in", data={**form, "mechanism": "SCRAM-SHA-512"})
            assert refused.status_code == 403
            assert "wrong" not in refused.text
        with signed_in(node.console, "anna", "anna-secret") as anna:
            assert "open" in anna.get("/topics").text
            assert "closed" not in anna.get("/topics").text
            assert anna.get("/topics/closed").status_code == 403
            answer = anna.post(
                "/topics/open/produce", data={"csrf": token(anna.get("/topics/open/produce")), "value": "hello"}
            )
            assert answer.status_code == 303
            assert "hello" in anna.get("/topics/open").text
            assert "Not allowed" in anna.get("/security").text
            cookie = anna.cookies["kavka_console"]
            assert anna.post("/sign-out", data={"csrf": token(anna.get("/"))}).status_code == 303
            assert anna.get("/topics", headers={"cookie": f"kavka_console={cookie}"}).status_code == 303
        with signed_in(node.console, "mallory", "mallory-secret") as mallory:
            assert mallory.get("/topics/open").status_code == 403
            assert mallory.get("/").status_code == 200
        with signed_in(node.console, "admin", secured.passwords["admin"]) as admin_browser:
            ask = {"principal": "anna", "operation": "read", "resource": "topic", "name": "open"}
            assert "<strong>Yes:</strong>" in admin_browser.get("/security", params=ask).text
            assert "<strong>No:</strong>" in admin_browser.get("/security", params={**ask, "name": "closed"}).text
            assert "super user" in admin_browser.get("/security", params={**ask, "principal": "admin"}).text
            assert admin_browser.get("/nodes").status_code == 200
        with httpx.Client(base_url=node.console, timeout=30) as guesser:
            form |= {"csrf": token(guesser.get("/sign-in")), "mechanism": "SCRAM-SHA-512"}
            said = [guesser.post("/sign-in", data=form).text for _ in range(MOST_FAILURES)]
            assert ["too many failed" in each for each in said] == [False] * (MOST_FAILURES - 1) + [True]
        assert "anna-secret" not in node.log
        command = " ".join(consoles(node.pid)[0].cmdline())
        assert "secret" not in command


def _allow(user: str, operation: int, topic: str) -> Any:
    return Acl(AclResource.TOPIC, topic, AclPattern.LITERAL, operation, f"User:{user}", "*", AclPermission.ALLOW)


def test_sigint_for_the_terminal_ends_node_and_console_in_order() -> None:
    with Cluster(config=CONSOLE) as node:
        (process,) = until(lambda: consoles(node.pid))
        os.kill(node.pid, signal.SIGINT)
        process.wait(20)
        assert not process.is_running()
        assert "Traceback" not in node.log


@pytest.mark.apart
def test_a_page_of_many_topics_comes_at_once() -> None:
    count = rounds(5000, 1000)
    with Cluster(config=CONSOLE) as node, httpx.Client(base_url=node.console, timeout=60) as browser:
        for first in range(0, count, 500):
            create(node, *(f"topic-{number:05}" for number in range(first, first + 500)))
        until(lambda: f"{count:,} topics" in browser.get("/topics").text, 60)
        took = []
        for asked in ("", "search=99", "page=15", "sort=size", "sort=rate") * 4:
            began = time.monotonic()
            page = browser.get(f"/topics?{asked}")
            took.append(time.monotonic() - began)
            assert (page.status_code, page.text.count("<tr data-href")) == (200, 50 if asked != "search=99" else ANY)
        assert sorted(took)[len(took) // 2] < 0.3
        assert len(page.content) < 100_000


def test_tiered_topics_and_a_console_that_only_shows(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    config = {
        **CONSOLE,
        "kavka.console.read.only": "true",
        "remote.log.storage.system.enable": "true",
        "kavka.remote.storage.url": store.as_uri(),
    }
    with Cluster(config=config) as node, httpx.Client(base_url=node.console, timeout=30) as browser:
        with Client(node.bootstrap) as client:
            client.admin.create_topic("cold", configs={"remote.storage.enable": "true"})
            client.admin.create_topic("warm")
        produce(node, "cold", b"x", b"y")
        page = until(lambda: (found := browser.get("/tiers").text) and "/topics/cold" in found and found)
        assert "/topics/warm" not in page
        assert "0 in the store only, 0 in both, 2 on disk only" in page
        assert ">tiered</a>" in browser.get("/topics").text
        shown = browser.get("/topics/cold/produce")
        assert "read-only" in shown.text
        assert "<textarea" not in shown.text


def test_pipelines_are_shown_as_they_report_themselves(node: Cluster, browser: httpx.Client) -> None:
    assert "No pipelines yet" in browser.get("/pipelines").text
    create(node, STATUS_TOPIC, "flows", "flows-dead")
    produce(node, "flows", *[b"x"] * 20)
    batches = (BatchReport(6, 4, 0, 1.0, 1), BatchReport(7, 12, 2, 0.5, 2))
    positions = (SourcePosition("flows", 0, 15, 16),)
    table = TableReport("delta", "/lake/<b>flows</b>", 10, 2, 2048, 3, int(time.time() * 1000) - 5000)
    running = FlowReport(
        "shop", "a&b", "running", int(time.time() * 1000), 30_000, "worker-1", "flows", None, "flows-dead",
        batches=batches, positions=positions, table=table,
    )  # fmt: skip
    failed = replace(running, flow="other", state="failed", error="no <i>space</i>", table=None, sink_topic="sunk")
    silent = replace(running, flow="gone", at_ms=1, positions=(), batches=())  # of the same table
    produce(node, STATUS_TOPIC, b"rubbish", None, *(each.encode() for each in (running, silent, running, failed)))
    text = browser.get("/pipelines").text
    assert [text.index(word) for word in (">failed<", ">silent<", ">running<")] == sorted(
        text.index(word) for word in (">failed<", ">silent<", ">running<")
    )
    assert "/lake/&lt;b&gt;flows&lt;/b&gt;" in text
    assert "1 record of the topic could not be read" in text
    assert text.count("shop / a&amp;b") == 2, "a flow and its table, once each"
    found = browser.get("/pipelines", params={"search": "GONE"}).text
    assert "shop / gone" in found
    assert "shop / other" not in found

    letter = Producer({"bootstrap.servers": node.bootstrap})
    letter.produce("flows-dead", b"bad<", headers=[("kavka.error", b"it is <no> JSON")])
    assert letter.flush(30) == 0
    until(lambda: "lag <b>5</b>" in browser.get("/pipeline", params={"name": "shop", "flow": "a&b"}).text)
    text = browser.get("/pipeline", params={"name": "shop", "flow": "a&b"}).text
    assert "it is &lt;no&gt; JSON" in text
    assert "10 rows in 2 files, 2.0 KiB, version 3" in text
    assert "12 rows, 2 of them dead letters" in text
    assert "no &lt;i&gt;space&lt;/i&gt;" in browser.get("/pipeline", params={"name": "shop", "flow": "other"}).text
    assert "has not been heard of since" in browser.get("/pipeline", params={"name": "shop", "flow": "gone"}).text
    assert browser.get("/pipeline", params={"name": "shop", "flow": "nope"}).status_code == 404

    produce(node, STATUS_TOPIC, replace(running, state="stopped").encode())
    assert ">stopped<" in browser.get("/pipelines").text
    with Client(node.bootstrap) as client:
        client.admin.delete_topic(STATUS_TOPIC)
    until(lambda: "No pipelines yet" in browser.get("/pipelines").text)

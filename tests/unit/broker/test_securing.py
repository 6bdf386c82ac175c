"""How a node's listeners are secured: each lets its own clients in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.config import node_config
from kavka.broker.gate import Gate
from kavka.broker.sasl.oauthbearer import MODULE as OAUTH_MODULE
from kavka.broker.securing import Securing
from kavka.model.clock import SystemClock
from kavka.model.settings import SettingError, Values, broker_values, with_dynamic
from kavka.model.types import Endpoint
from kavka.net.stores import Stores, read_stores
from kavka.testing.secured import MODULES, Secured


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured(tmp_path_factory.mktemp("secured"))


@pytest.fixture
def texts(made: Secured, tmp_path: Path) -> dict[str, str]:
    """The settings of a node with a SASL_SSL and an SSL listener."""
    return {
        **made.nodes,
        "listeners": "SASL_SSL://127.0.0.1:0,SSL://127.0.0.1:0",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:SASL_SSL",
        "log.dirs": str(tmp_path),
    }


def securing(texts: dict[str, str]) -> Securing:
    return Securing(node_config(texts), SystemClock(), Gate(None))


class Newcomer:
    """A connection that never gets on."""

    def __init__(self) -> None:
        self.closed = False

    def when_closed(self, key: Hashable, callback: Callable[[], None]) -> None:
        """It is not asked what it would do."""

    def close(self) -> None:
        self.closed = True


def test_a_crowd_at_one_listener_keeps_nobody_out_at_another(texts: dict[str, str]) -> None:
    async def test() -> None:
        node = securing({**texts, "kavka.max.unauthenticated.connections": "3"})
        of_a_node = Newcomer()
        node.lobbies["SASL_SSL"].welcome(of_a_node)
        crowd = [Newcomer() for _ in range(10)]
        for one in crowd:
            node.lobbies["SSL"].welcome(one)
        assert [one.closed for one in crowd] == [True] * 7 + [False] * 3
        assert not of_a_node.closed

    asyncio.run(test())


PREFIX = "listener.name.sasl_ssl."
PLAIN_USERS = {
    f"{PREFIX}sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
    f"{PREFIX}plain.sasl.jaas.config": f'{MODULES["PLAIN"]} required user_alice="wonder";',
}


def with_texts(texts: dict[str, str], dynamic: dict[str, str]) -> Values:
    return with_dynamic(broker_values(texts), dynamic, {})


def test_mechanisms_come_and_go_with_the_settings(texts: dict[str, str]) -> None:
    async def test() -> None:
        node = securing(texts)
        values = with_texts(texts, PLAIN_USERS)
        await node.check(values)
        node.follow(values)
        assert list(node.logins["SASL_SSL"].offers) == ["SCRAM-SHA-512", "PLAIN"]
        for none in ("", "NOBODY"):
            with pytest.raises(SettingError, match=r"sasl.enabled.mechanisms"):
                await node.check(with_texts(texts, {f"{PREFIX}sasl.enabled.mechanisms": none}))
        fewer = with_texts(texts, {**PLAIN_USERS, f"{PREFIX}sasl.enabled.mechanisms": "PLAIN"})
        await node.check(fewer)
        node.follow(fewer)
        assert list(node.logins["SASL_SSL"].offers) == ["PLAIN"]

    asyncio.run(test())


def reading(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each time that stores are read, whether that was on the loop."""
    times: list[bool] = []

    def read(settings: Any) -> Stores:
        times.append(threading.current_thread() is threading.main_thread())
        return read_stores(settings)

    monkeypatch.setattr("kavka.broker.keys.read_stores", read)
    return times


def test_stores_are_read_when_their_own_settings_change_and_never_on_the_loop(
    texts: dict[str, str], made: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        node = securing(texts)
        read = reading(monkeypatch)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(node.run())
            node.follow(with_texts(texts, {"log.retention.ms": "1000", "listener.name.ssl.max.connections": "5"}))
            await asyncio.sleep(0.01)
            assert read == []
            own = {"listener.name.ssl.ssl.keystore.location": str(made.folder / "node.pem")}
            before = node.keys["SSL"]
            node.follow(with_texts(texts, own))
            while node.keys["SSL"] is before:
                await asyncio.sleep(0.001)
            assert read == [False]
            running.cancel()

    asyncio.run(test())


def test_a_listener_is_secured_while_the_node_runs(texts: dict[str, str]) -> None:
    extra = {
        "listeners": texts["listeners"] + ",EXTRA://127.0.0.1:0",
        "listener.security.protocol.map": texts["listener.security.protocol.map"] + ",EXTRA:SASL_SSL",
        "listener.name.extra.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.extra.plain.sasl.jaas.config": f'{MODULES["PLAIN"]} required user_alice="wonder";',
    }

    async def test() -> None:
        node = securing(texts)
        endpoint = Endpoint("EXTRA", "127.0.0.1", 0, "SASL_SSL")
        assert not node.ready(endpoint)
        values = with_texts(texts, extra)
        told: list[bool] = []
        node.subscribe(lambda: told.append(node.ready(endpoint)))
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(node.run())
            node.follow(values)  # as it comes with the metadata, which nobody here has checked
            while not told:
                await asyncio.sleep(0.001)
            assert told == [True]
            running.cancel()
        assert list(node.logins["EXTRA"].offers) == ["PLAIN"]
        assert "EXTRA" in node.tls
        node.follow(broker_values(texts))
        assert not node.ready(endpoint)
        assert "EXTRA" not in node.tls
        assert "EXTRA" not in list(node.keys)

    asyncio.run(test())


def test_a_store_that_cannot_be_used_leaves_the_others_alone(texts: dict[str, str], tmp_path: Path) -> None:
    bad = {"listener.name.ssl.ssl.keystore.location": str(tmp_path / "nowhere.pem")}

    async def test() -> None:
        node = securing(texts)
        with pytest.raises(SettingError, match="nowhere"):
            await node.check(with_texts(texts, bad))
        await node.check(with_texts(texts, PLAIN_USERS))
        before = node.keys["SSL"]
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(node.run())
            node.follow(with_texts(texts, {**bad, **PLAIN_USERS}))
            while len(node.logins["SASL_SSL"].offers) == 1:
                await asyncio.sleep(0.001)
            running.cancel()
        assert node.keys["SSL"] is before

    asyncio.run(test())


def test_a_node_logs_in_at_others_as_its_settings_say_by_now(texts: dict[str, str], made: Secured) -> None:
    async def test() -> None:
        # a node that keeps an audit topic is a client of itself
        node = securing({**texts, "kavka.audit.enable": "true", "kavka.audit.topic.enable": "true"})
        assert node.to_brokers is not None
        assert node.to_brokers.begin is not None

        async def name() -> bytes:
            assert node.to_brokers is not None
            assert node.to_brokers.begin is not None
            return (await node.to_brokers.begin("h")).begin().partition(b",r=")[0]

        key = f"{PREFIX}scram-sha-512.sasl.jaas.config"
        line = f'{MODULES["SCRAM-SHA-512"]} required username="{{}}" password="p";'
        before = await name()
        values = with_texts(texts, {key: line.format("renamed")})
        await node.check(values)
        assert await name() == before != b"n,,n=renamed"
        node.follow(values)
        assert await name() == b"n,,n=renamed"
        for bad in ("nothing", f'{MODULES["PLAIN"]} required username="a" password="p";'):
            worse = with_texts(texts, {key: bad})
            with pytest.raises(SettingError, match=r"sasl.jaas.config"):
                await node.check(worse)
            node.follow(worse)
            assert await name() == b"n,,n=renamed"

    asyncio.run(test())


def test_a_mechanism_that_runs_goes_on_until_its_own_settings_change(texts: dict[str, str], tmp_path: Path) -> None:
    keys, others = tmp_path / "keys.json", tmp_path / "others.json"
    for path in (keys, others):
        path.write_text('{"keys": []}')
    at_start = {
        **texts,
        f"{PREFIX}sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": f"{keys.as_uri()},{others.as_uri()}",
    }

    async def test() -> None:
        node = securing(at_start)

        async def after(dynamic: dict[str, str]) -> object:
            values = with_texts(at_start, dynamic)
            await node.check(values)
            node.follow(values)
            return node.logins["SASL_SSL"].offers["OAUTHBEARER"].mechanism

        first = node.logins["SASL_SSL"].offers["OAUTHBEARER"].mechanism
        assert await after({f"{PREFIX}sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-512"}) is first
        line = f'{OAUTH_MODULE} required unsecuredLoginStringClaim_sub="kavka";'
        second = await after({f"{PREFIX}oauthbearer.sasl.jaas.config": line})
        assert second is not first

    asyncio.run(test())

"""The keys of bearer tokens: loaded, loaded again, and not because strangers make up names of keys."""

from __future__ import annotations

import asyncio
import json

import pytest
from joserfc.jwk import RSAKey

from kavka.broker.sasl.jwks import MISSING_KIDS, RefreshingJwks, from_file
from kavka.client.http import HttpError
from kavka.model.clock import ManualClock
from kavka.security.jwt import UnknownKeyError

KEYS = {kid: RSAKey.generate_key(2048, {"kid": kid}) for kid in ("old", "new")}


def document(*kids):
    return json.dumps({"keys": [KEYS[kid].as_dict(private=False) for kid in kids]}).encode()


class Server:
    """What a ring loads; an exception is raised instead."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.loads = 0

    async def __call__(self):
        self.loads += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def ring(server, clock=None):
    clock = clock or ManualClock(1_000_000)
    return RefreshingJwks(server, clock, refresh_ms=3_600_000, backoff_ms=1, backoff_max_ms=5)


def knows(keys, kid):
    try:
        keys.find(kid, "RS256")
    except UnknownKeyError:
        return False
    return True


def test_a_load_that_fails_leaves_the_keys_as_they_are(caplog):
    loaded = ring(
        Server(document("old"), HttpError("away"), OSError("gone"), b"garbage", b'{"keys": []}', document("new"))
    )

    async def case():
        await loaded.refresh()
        for failures in (1, 2, 3, 4):
            await loaded.refresh()
            assert (loaded.failures, knows(loaded.keys, "old")) == (failures, True)
        await loaded.refresh()
        assert (loaded.failures, knows(loaded.keys, "old"), knows(loaded.keys, "new")) == (0, False, True)

    asyncio.run(case())
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "WARNING"]  # 1, 2, 4 times


def test_a_ring_that_runs_goes_on_after_failures_and_loads_again_for_a_key_that_is_missed(monkeypatch):
    monkeypatch.setattr("kavka.broker.sasl.jwks.BETWEEN_FETCHES_MS", 1)
    server = Server(HttpError("away"), HttpError("away"), document("old"), document("old", "new"))
    loaded = ring(server)

    async def case():
        running = asyncio.create_task(loaded.run())
        while not knows(loaded.keys, "old"):
            await asyncio.sleep(0.001)
        assert server.loads == 3
        loaded.miss("new")
        while not knows(loaded.keys, "new"):
            await asyncio.sleep(0.001)
        assert server.loads == 4
        running.cancel()

    asyncio.run(case())


def test_names_that_are_made_up_have_keys_loaded_once_a_minute_each_and_few_are_remembered():
    clock = ManualClock(1_000_000)
    loaded = ring(Server(document("old")), clock)

    def wanted_by(kid):
        loaded._wanted.clear()
        loaded.miss(kid)
        return loaded._wanted.is_set()

    assert wanted_by("a")
    assert not wanted_by("a")
    assert not wanted_by("x" * 1001)
    clock.advance(60_000)
    assert wanted_by("a")
    for number in range(1000):
        loaded.miss(str(number))
    assert len(loaded._missing) == MISSING_KIDS


def test_a_file_is_read_again(tmp_path):
    path = tmp_path / "k ys.json"
    path.write_bytes(document("old"))
    loaded = ring(from_file(path.as_uri()))
    asyncio.run(loaded.refresh())
    assert knows(loaded.keys, "old")
    path.write_bytes(document("new"))
    asyncio.run(loaded.refresh())
    assert knows(loaded.keys, "new")


@pytest.mark.parametrize("kid", ["", "é", "a\nb"])
def test_odd_names_are_names(kid):
    loaded = ring(Server(document("old")))
    loaded.miss(kid)
    assert loaded._wanted.is_set()

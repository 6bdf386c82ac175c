"""A node that tiers to S3, as moto's server speaks it: the way there, back, and out; also sealed."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tiering import EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, TOPIC, World, serving, settings, until, value_of


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """moto's S3 on loopback, with a bucket; its address."""
    pytest.importorskip("obstore", reason="obstore is not installed: the extra cloud")
    server_module = pytest.importorskip("moto.server", reason="moto is not installed: the extra test")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "kavka")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "kavka")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    try:
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/tiers", method="PUT")).close()
        yield endpoint
    finally:
        server.stop()


def keys(endpoint: str) -> str:
    """What the bucket lists."""
    with urllib.request.urlopen(f"{endpoint}/tiers?list-type=2") as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("sealed", [False, True], ids=["as it is", "compressed and encrypted"])
def test_segments_go_to_a_bucket_are_read_and_go_with_their_topic(s3: str, tmp_path: Path, sealed: bool) -> None:
    more = {"kavka.remote.storage.options": f"endpoint={s3},region=us-east-1"}
    if sealed:
        pytest.importorskip("cryptography", reason="cryptography is not installed: the extra encryption")
        ring = {"current": "now", "keys": {"now": base64.b64encode(os.urandom(32)).decode()}}
        (tmp_path / "keys.json").write_text(json.dumps(ring))
        more |= {
            "kavka.remote.storage.compression": "true",
            "kavka.remote.storage.keys.file": str(tmp_path / "keys.json"),
        }

    async def fill(world: World) -> None:
        await world.create()
        await world.produce(*range(10))
        await world.becomes(LATEST_TIERED, 7)
        await world.becomes(EARLIEST_LOCAL, 8)
        assert await world.read() == [value_of(number) for number in range(10)]

    async def go_on(world: World) -> None:
        await world.becomes(EARLIEST, 0)
        assert await world.read() == [value_of(number) for number in range(10)]
        assert keys(s3).count(".manifest") == 4
        await world.admin.delete_topic(TOPIC)

        async def gone() -> bool:
            return TOPIC not in keys(s3)

        await until(gone, "the bucket is empty")

    async def whole() -> None:
        for scenario in (fill, go_on):
            async with serving(settings(tmp_path / "data", "s3://tiers/prefix", more)) as world:
                await scenario(world)

    asyncio.run(whole())

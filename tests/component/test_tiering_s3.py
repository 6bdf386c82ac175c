"""A node that tiers to S3, as two servers speak it: the way there, back, and out; also sealed."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.s3_servers import BUCKET, SERVERS, s3_server
from tests.tiering import EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, TOPIC, World, serving, settings, until, value_of

from kavka.tiered.objects.base import list_objects
from kavka.tiered.objects.opening import open_store


@pytest.fixture(params=SERVERS)
def s3(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A server with a bucket, and keys where the cloud's own tools look for them."""
    with s3_server(request.param, tmp_path) as options:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", options["access_key_id"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", options["secret_access_key"])
        yield options


async def keys(options: dict[str, str]) -> list[str]:
    """What the bucket lists."""
    with ThreadPoolExecutor(1) as threads:
        return [info.key async for info in list_objects(open_store(f"s3://{BUCKET}", threads, options))]


@pytest.mark.parametrize("sealed", [False, True], ids=["as it is", "compressed and encrypted"])
def test_segments_go_to_a_bucket_are_read_and_go_with_their_topic(
    s3: dict[str, str], tmp_path: Path, sealed: bool
) -> None:
    more = {"kavka.remote.storage.options": f"endpoint={s3['endpoint']},region=us-east-1"}
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
        assert len([key for key in await keys(s3) if key.endswith(".manifest")]) == 4
        await world.admin.delete_topic(TOPIC)

        async def gone() -> bool:
            return not [key for key in await keys(s3) if TOPIC in key]

        await until(gone, "the bucket is empty")

    async def whole() -> None:
        for scenario in (fill, go_on):
            async with serving(settings(tmp_path / "data", f"s3://{BUCKET}/prefix", more)) as world:
                await scenario(world)

    asyncio.run(whole())

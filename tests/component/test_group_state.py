"""What the offsets topic remembers: over restarts, with records that nobody knows, and with damaged ones."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import pytest

from kavka.client import Admin, Connector, GroupConsumer, Producer, TopicPartition
from kavka.model.errors import InvalidTopicException
from kavka.protocol.schemas.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kavka.records.builder import BatchBuilder
from kavka.runtime.shards import partition_of
from kavka.testing import Cluster

CONFIG = {"offsets.topic.num.partitions": "4", "group.initial.rebalance.delay.ms": "0"}
TP = TopicPartition("orders", 0)


@pytest.fixture
def node():
    with Cluster(config=CONFIG) as cluster:
        yield cluster


async def commit(bootstrap: str, group: str, offset: int) -> None:
    """Remember an offset for a group of nobody."""
    async with Admin(bootstrap) as admin:
        await admin.alter_group_offsets(group, {TP: offset})


async def committed(bootstrap: str, group: str) -> int | None:
    """The offset that a group has committed."""
    async with Admin(bootstrap) as admin:
        found = (await admin.group_offsets(group)).get(TP)
        return None if found is None else found.offset


async def prepare(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topic("orders")


def batch(*records: tuple[bytes | None, bytes | None]) -> bytes:
    """A batch of raw records."""
    builder = BatchBuilder()
    for key, value in records:
        builder.append(key, value, 1)
    return builder.build()


async def write(bootstrap: str, group: str, data: bytes, client_id: str = "__admin_client") -> int:
    """Write to the partition that remembers a group, as only an administrator can; the error code."""
    host, _, port = bootstrap.rpartition(":")
    connection = await Connector().connect(host, int(port), client_id=client_id)
    rows = [PartitionProduceData(index=partition_of(group, 4), records=data)]
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="__consumer_offsets", partition_data=rows)]
    )
    answer = await connection.request(request, ProduceResponse, version=9)
    connection.close()
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def test_offsets_are_there_after_a_restart_and_after_a_crash(node):
    asyncio.run(prepare(node.bootstrap))
    asyncio.run(commit(node.bootstrap, "g", 7))
    node.restart()
    assert asyncio.run(committed(node.bootstrap, "g")) == 7
    asyncio.run(commit(node.bootstrap, "g", 8))
    node.kill()
    node.start()
    assert asyncio.run(committed(node.bootstrap, "g")) == 8


def test_records_that_nobody_knows_are_passed_over_with_a_warning(node):
    asyncio.run(prepare(node.bootstrap))
    asyncio.run(commit(node.bootstrap, "g", 7))
    strange = batch(
        (struct.pack(">h", 99) + b"from the future", b"?"),
        (b"\0", b"too short a key"),
        (struct.pack(">h", 1) + b"\xff\xff", struct.pack(">h", 3)),
        (struct.pack(">hh", 1, 1) + b"g" + struct.pack(">h", 1) + b"t" + bytes(4), struct.pack(">h", 77)),
    )
    assert asyncio.run(write(node.bootstrap, "g", strange)) == 0
    # The coordinator notices at its next write that somebody else was here, and starts over.
    asyncio.run(commit(node.bootstrap, "g", 8))
    assert asyncio.run(committed(node.bootstrap, "g")) == 8
    node.restart()
    assert asyncio.run(committed(node.bootstrap, "g")) == 8
    assert "somebody else wrote to" in node.log
    assert "skipping a record: a record of unknown type 99" in node.log
    assert "77 at offset 4" in node.log


def test_clients_do_not_write_to_the_offsets_topic(node):
    asyncio.run(prepare(node.bootstrap))
    asyncio.run(commit(node.bootstrap, "g", 7))
    assert asyncio.run(write(node.bootstrap, "g", batch((b"k", b"v")), "anybody")) == InvalidTopicException.code


def test_a_damaged_batch_costs_only_itself(node):
    asyncio.run(prepare(node.bootstrap))
    for offset in (1, 2, 3):
        asyncio.run(commit(node.bootstrap, f"g{offset}", offset))
    asyncio.run(commit(node.bootstrap, "g1", 11))
    asyncio.run(commit(node.bootstrap, "g1", 12))
    node.stop()
    path = next(Path(node.data_dir).glob(f"__consumer_offsets-{partition_of('g1', 4)}/*.log"))
    data = bytearray(path.read_bytes())
    place = data.rindex(struct.pack(">q", 11))  # the offset inside of the last batch but one
    data[place] ^= 0xFF
    path.write_bytes(data)
    node.start()
    assert asyncio.run(committed(node.bootstrap, "g1")) == 12
    assert asyncio.run(committed(node.bootstrap, "g2")) == 2
    assert asyncio.run(committed(node.bootstrap, "g3")) == 3
    assert "is damaged" in node.log


def test_offsets_of_a_deleted_topic_are_forgotten(node):
    async def scenario() -> None:
        await prepare(node.bootstrap)
        await commit(node.bootstrap, "g", 7)
        async with Admin(node.bootstrap) as admin:
            await admin.delete_topic("orders")
            while await admin.group_offsets("g"):
                await asyncio.sleep(0.01)
            await admin.create_topic("orders")
            assert await admin.group_offsets("g") == {}

    asyncio.run(scenario())


def test_a_member_survives_the_restart_of_its_node(node):
    async def scenario() -> None:
        await prepare(node.bootstrap)
        async with Producer(node.bootstrap) as producer:
            await producer.send_and_wait("orders", b"before")
        async with GroupConsumer(node.bootstrap, group="g", topics=["orders"], start="start") as consumer:
            assert [record.value for record in await consumer.read()] == [b"before"]
            await asyncio.to_thread(node.restart)
            async with Producer(node.bootstrap) as producer:
                await producer.send_and_wait("orders", b"after")
            assert [record.value for record in await consumer.read(30_000)] == [b"after"]
            await consumer.commit()
        assert await committed(node.bootstrap, "g") == 2

    asyncio.run(scenario())


@pytest.mark.apart
def test_a_stop_tells_members_that_wait(node):
    async def scenario() -> None:
        quick = {"protocol": "classic", "heartbeat_interval_ms": 100}  # so long does it try to leave
        async with GroupConsumer(node.bootstrap, group="g", topics=["nowhere"], **quick) as consumer:
            waiting = asyncio.ensure_future(consumer.read(500))
            await asyncio.sleep(0.1)
            began = asyncio.get_running_loop().time()
            await asyncio.to_thread(node.stop)
            assert asyncio.get_running_loop().time() - began < 2.0
            await waiting

    asyncio.run(prepare(node.bootstrap))
    asyncio.run(scenario())

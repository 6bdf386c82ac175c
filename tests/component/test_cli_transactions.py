"""`kavka transactions` against a running node."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import pytest

from json_names import documented
from kavka.client import Admin, Consumer, NewTopic, OpenTransaction, Producer, TopicPartition
from kavka.client.pool import Pool
from kavka.model.errors import InvalidProducerEpoch, NotEnoughReplicas, ProducerFenced
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kavka.records.builder import BatchBuilder
from kavka.testing import Cluster

CONFIG = {"transaction.partition.verification.enable": "false", "transaction.state.log.num.partitions": "2"}


@pytest.fixture(scope="module")
def node():
    with Cluster(config=CONFIG) as cluster:
        yield cluster.bootstrap


def kavka(node, *arguments):
    command = [sys.executable, "-m", "kavka", "transactions", *arguments]
    return subprocess.run(
        command, capture_output=True, env={**os.environ, "KAVKA_BOOTSTRAP": node}, timeout=60, check=False, text=True
    )


def rows(node, *arguments):
    done = kavka(node, *arguments, "--output", "json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


async def ended(bootstrap):
    """Wait until the markers of all decided transactions are written: a commit is answered before they are."""
    async with Admin(bootstrap) as admin:
        while await admin.list_transactions(states=["PrepareCommit", "PrepareAbort"]):
            await asyncio.sleep(0.01)


async def read(node, topic):
    await ended(node)
    async with Consumer(node, isolation="read_committed") as consumer:
        await consumer.assign(topic)
        return [record.value async for record in consumer.until_end()]


def test_an_open_transaction_is_listed_described_and_aborted(node):
    async def case():
        async with Admin(node) as admin:
            await admin.create_topics([NewTopic("orders", partitions=2)])
        async with Producer(node, transactional_id="shop") as producer:
            producer.begin()
            await producer.send_and_wait("orders", b"x", partition=1)
            assert [(one["id"], one["state"]) for one in rows(node, "list")] == [("shop", "Ongoing")]
            assert rows(node, "list", "--state", "Empty") == []
            assert rows(node, "list", "--pattern", "sh.*") != []
            assert rows(node, "list", "--longer-than", "3600") == []
            (shown,) = rows(node, "describe", "shop")
            assert (shown["state"], shown["partitions"]) == ("Ongoing", ["orders-1"])
            assert "orders-1" in kavka(node, "describe", "shop").stdout
            done = kavka(node, "abort", "shop")
            assert (done.returncode, done.stdout) == (0, "nothing of shop is open; its producer is fenced\n")
            documented("kavka transactions abort shop", kavka(node, "abort", "shop", "--output", "json").stdout)
            with pytest.raises(ProducerFenced):
                await producer.commit()
        assert rows(node, "describe", "shop")[0]["state"] == "Empty"
        assert await read(node, "orders") == []

    asyncio.run(case())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["describe", "nobody"], 1, "TransactionalIdNotFound"),
        (["abort", "nobody"], 1, "TransactionalIdNotFound"),
        (["abort"], 2, "give either"),
        (["abort", "x", "--topic", "t"], 2, "give either"),
        (["abort", "--topic", "t"], 2, "give either"),
        (["list", "--state", "Open"], 1, "'Open'"),
        (["list", "--pattern", "("], 1, "InvalidRegularExpression"),
    ],
)
def test_what_cannot_be_done_is_one_line(node, arguments, code, message):
    done = kavka(node, *arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


async def hang(node, topic):
    """Begin a transaction in a partition that no coordinator knows: verification is off here."""
    builder = BatchBuilder(producer_id=77_777, producer_epoch=0, base_sequence=0, transactional=True)
    builder.append(None, b"hanging", 1)
    data = PartitionProduceData(index=0, records=builder.build())
    request = ProduceRequest(
        transactional_id="forgotten", acks=-1, timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )  # fmt: skip
    pool = Pool(node)
    code = NotEnoughReplicas.code
    while code == NotEnoughReplicas.code:  # while the coordinators are loaded
        answer = await (await pool.any()).request(request, ProduceResponse, version=10)
        code = answer.responses[0].partition_responses[0].error_code
    assert code == 0
    await pool.close()


def test_a_transaction_that_hangs_is_found_and_aborted(node):
    async def case():
        async with Admin(node) as admin:
            await admin.create_topics([NewTopic("stuck", partitions=1)])
            assert await admin.find_hanging([TopicPartition("stuck", 0)], older_than_ms=1 << 50) == []
        await hang(node, "stuck")
        async with Producer(node) as plain:
            await plain.send("stuck", b"behind")
        assert await read(node, "stuck") == []
        async with Producer(node, transactional_id="alive") as producer:
            producer.begin()
            await producer.send_and_wait("stuck", b"alive")
            found = rows(node, "find-hanging", "--topic", "stuck", "--older-than", "0")
            assert [(one["topic"], one["partition"], one["producer_id"], one["start_offset"]) for one in found] == [
                ("stuck", 0, 77_777, 0)
            ]
            assert len(rows(node, "find-hanging", "--older-than", "0")) == 1
            await producer.commit()
        which = ["--topic", "stuck", "--partition", "0", "--producer-id", "77777"]
        done = kavka(node, "abort", *which, "--output", "json")
        assert done.returncode == 0, done.stderr
        documented("kavka transactions abort --topic stuck --partition 0 --producer-id 77777", done.stdout)
        assert await read(node, "stuck") == [b"behind", b"alive"]
        again = kavka(node, "abort", *which)
        assert (again.returncode, again.stderr) == (
            1,
            "kavka: producer 77777 has no transaction open in stuck-0\n",
        )

    asyncio.run(case())


def test_aborting_where_a_later_epoch_was_seen_is_refused(node):
    async def case():
        async with Admin(node) as admin:
            await admin.create_topics([NewTopic("later", partitions=1)])
            async with Producer(node, transactional_id="later") as producer:
                async with producer.transaction():
                    await producer.send("later", b"x")
                producer.begin()
                await producer.send_and_wait("later", b"y")
                (open_,) = await admin.open_transactions(TopicPartition("later", 0))
                old = OpenTransaction(
                    open_.partition, open_.producer_id, 0, open_.coordinator_epoch, open_.start_offset, 0
                )
                with pytest.raises(InvalidProducerEpoch):
                    await admin.abort_transaction(old)
                await producer.commit()
        assert await read(node, "later") == [b"x", b"y"]

    asyncio.run(case())

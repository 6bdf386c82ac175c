"""The client's transactions against a real node: commit, abort, offsets, fencing, timeouts, and two phases."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from kavka.client import (
    Admin,
    Consumer,
    GroupConsumer,
    NewTopic,
    PreparedTransaction,
    Producer,
    TopicPartition,
    UpgradeType,
)
from kavka.client.blocking import Client
from kavka.model.errors import (
    InvalidProducerEpoch,
    KafkaError,
    MessageTooLarge,
    ProducerFenced,
    TransactionAbortable,
    UnsupportedVersion,
)
from kavka.testing import Cluster

NUMBERS = count()
CONFIG = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.two.phase.commit.enable": "true",
}


@pytest.fixture(scope="module")
def node():
    with Cluster(config=CONFIG) as cluster:
        yield cluster.bootstrap


@pytest.fixture
def topic(node):
    name = f"topic-{next(NUMBERS)}"

    async def create():
        async with Admin(node) as admin:
            await admin.create_topics([NewTopic(name, partitions=2)])

    asyncio.run(create())
    return name


@pytest.fixture
def id_():
    return f"id-{next(NUMBERS)}"


async def ended(bootstrap):
    """Wait until the markers of all decided transactions are written: a commit is answered before they are."""
    async with Admin(bootstrap) as admin:
        while await admin.list_transactions(states=["PrepareCommit", "PrepareAbort"]):
            await asyncio.sleep(0.01)


async def read(node, topic, isolation="read_committed"):
    await ended(node)
    async with Consumer(node, isolation=isolation) as consumer:
        await consumer.assign(topic)
        return sorted([record.value.decode() async for record in consumer.until_end()])


def run(work):
    asyncio.run(asyncio.wait_for(work, 60))


def test_a_transaction_is_seen_as_a_whole_or_not_at_all(node, topic, id_):
    async def case():
        async with Producer(node, transactional_id=id_) as producer:
            producer.begin()
            for number in range(10):
                await producer.send(topic, b"%d" % number, partition=number % 2)
            await producer.flush()
            assert await read(node, topic) == []
            assert len(await read(node, topic, "read_uncommitted")) == 10
            await producer.commit()
            assert len(await read(node, topic)) == 10
            producer.begin()
            await producer.send_and_wait(topic, b"not", partition=0)
            await producer.abort()
            producer.begin()
            await producer.commit()  # of nothing
            assert len(await read(node, topic)) == 10

    run(case())


async def fail_amid(producer, topic):
    async with producer.transaction():
        await producer.send_and_wait(topic, b"out")
        raise ZeroDivisionError


def test_a_block_commits_or_aborts(node, topic, id_):
    async def case():
        async with Producer(node, transactional_id=id_) as producer:
            async with producer.transaction():
                await producer.send(topic, b"in")
            with pytest.raises(ZeroDivisionError):
                await fail_amid(producer, topic)
        assert await read(node, topic) == ["in"]

    run(case())


def test_what_is_left_open_is_aborted_when_the_producer_closes(node, topic, id_):
    async def case():
        async with Producer(node, transactional_id=id_) as producer:
            producer.begin()
            await producer.send_and_wait(topic, b"open")
        async with Producer(node) as plain:
            await plain.send(topic, b"after", partition=0)
            await plain.send(topic, b"after", partition=1)
        assert await read(node, topic) == ["after", "after"]

    run(case())


def test_the_calls_have_an_order(node, topic, id_):
    async def case():
        async with Producer(node, transactional_id=id_) as producer:
            with pytest.raises(RuntimeError):
                await producer.send(topic, b"x")
            with pytest.raises(RuntimeError):
                await producer.commit()
            with pytest.raises(RuntimeError):
                await producer.abort()
            with pytest.raises(RuntimeError):
                await producer.prepare()
            producer.begin()
            with pytest.raises(RuntimeError):
                producer.begin()
        async with Producer(node) as plain:
            with pytest.raises(RuntimeError):
                plain.begin()

    run(case())


@pytest.mark.parametrize(
    "options",
    [
        {"transactional_id": "t", "acks": 1},
        {"transactional_id": "t", "idempotence": False},
        {"transactional_id": ""},
        {"two_phase_commit": True},
    ],
)
def test_options_that_contradict_each_other_are_refused(options):
    with pytest.raises(ValueError, match="transaction"):
        Producer("nowhere:1", **options)


@pytest.mark.parametrize("commits", [True, False])
def test_offsets_count_with_the_transaction(node, topic, id_, commits):
    group = f"g-{id_}"
    here = TopicPartition(topic, 0)

    async def case():
        async with Producer(node, transactional_id=id_) as producer, Admin(node) as admin:
            producer.begin()
            await producer.send_offsets({here: 7}, group)
            await (producer.commit() if commits else producer.abort())
            await ended(node)
            found = {tp: one.offset for tp, one in (await admin.group_offsets(group)).items()}
            assert found == ({here: 7} if commits else {})

    run(case())


def test_a_member_commits_what_it_has_read_with_what_it_has_made_of_it(node, topic, id_):
    async def case():
        async with Producer(node) as plain:
            for number in range(20):
                await plain.send(topic, b"%d" % number, partition=number % 2)
        out = f"{topic}-out"
        async with Admin(node) as admin:
            await admin.create_topics([NewTopic(out, partitions=2)])
        async with (
            GroupConsumer(node, group=f"g-{id_}", topics=[topic], start="start", auto_commit_ms=None) as consumer,
            Producer(node, transactional_id=id_) as producer,
        ):
            left = 20
            while left:
                records = await consumer.read()
                async with producer.transaction():
                    for one in records:
                        await producer.send(out, one.value, partition=one.partition)
                    ends = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
                    await producer.send_offsets(ends, consumer)
                left -= len(records)
            assert await consumer.committed() == {TopicPartition(topic, 0): 10, TopicPartition(topic, 1): 10}
        assert await read(node, out) == sorted(str(number) for number in range(20))

    run(case())


def test_who_is_no_member_cannot_commit_for_one(node, topic, id_):
    class Stranger:
        group, member_id, epoch, instance_id = f"g-{id_}", "nobody", 3, None

    async def case():
        async with Producer(node, transactional_id=id_) as producer:
            producer.begin()
            with pytest.raises(KafkaError):
                await producer.send_offsets({TopicPartition(topic, 0): 1}, Stranger())
            with pytest.raises(KafkaError):
                await producer.commit()
            await producer.abort()
            async with producer.transaction():
                await producer.send(topic, b"goes on")
        assert await read(node, topic) == ["goes on"]

    run(case())


def test_of_two_instances_the_older_is_fenced(node, topic, id_):
    async def case():
        async with Producer(node, transactional_id=id_) as old:
            old.begin()
            await old.send_and_wait(topic, b"old")
            async with Producer(node, transactional_id=id_) as new:
                with pytest.raises(ProducerFenced):
                    await old.commit()
                async with new.transaction():
                    await new.send(topic, b"new")
            with pytest.raises(ProducerFenced):
                old.begin()
        assert await read(node, topic) == ["new"]

    run(case())


def test_a_transaction_that_took_too_long_can_only_be_aborted_and_then_its_producer_goes_on(node, topic, id_):
    async def case():
        async with Producer(node, transactional_id=id_, transaction_timeout_ms=200) as producer:
            producer.begin()
            await producer.send_and_wait(topic, b"late", partition=0)
            while True:
                await asyncio.sleep(0.1)
                try:
                    await producer.send_and_wait(topic, b"late too", partition=0)
                except (InvalidProducerEpoch, TransactionAbortable):
                    break
            with pytest.raises(KafkaError):
                await producer.commit()
            await producer.abort()
            async with producer.transaction():
                await producer.send(topic, b"in time")
        assert await read(node, topic) == ["in time"]

    run(case())


def test_many_transactions_one_after_the_other_on_many_connections(node, topic, id_):
    async def case():
        async def work(name):
            async with Producer(node, transactional_id=f"{id_}-{name}") as producer:
                for number in range(20):
                    async with producer.transaction():
                        for part in range(3):
                            await producer.send(topic, f"{name}-{number}-{part}".encode())

        await asyncio.gather(*(work(name) for name in range(5)))
        assert len(await read(node, topic)) == 300

    run(case())


# -- without asyncio ----------------------------------------------------------------------------------------------


def test_the_blocking_producer_transacts(node, topic, id_):
    with Client(node) as client:
        with client.producer(transactional_id=id_) as producer:
            with producer.transaction():
                for number in range(10):
                    producer.send(topic, b"%d" % number)
                producer.send_offsets({TopicPartition(topic, 0): 3}, f"g-{id_}")
            producer.begin()
            producer.send(topic, b"not")
            producer.abort()
            producer.begin()
            producer.send(topic, b"not either")
            producer.send(topic, bytes(2_000_000))
            with pytest.raises(MessageTooLarge):
                producer.commit()
            producer.abort()
            producer.begin()
            producer.send(topic, b"left open")
        with client.producer(transactional_id=id_, two_phase_commit=True) as producer:
            producer.begin()
            producer.send(topic, b"prepared")
            prepared = producer.prepare()
        with client.producer(transactional_id=id_, two_phase_commit=True) as producer:
            assert producer.kept == prepared
            assert producer.complete(prepared)
        assert client.admin.group_offsets(f"g-{id_}")[TopicPartition(topic, 0)].offset == 3
    assert asyncio.run(read(node, topic)) == sorted([*(str(number) for number in range(10)), "prepared"])


# -- two phases ---------------------------------------------------------------------------------------------------


def test_a_prepared_transaction_outlives_its_producer_and_is_committed_by_the_next(node, topic, id_):
    async def prepare():
        async with Producer(node, transactional_id=id_, two_phase_commit=True) as producer:
            assert producer.kept is None
            producer.begin()
            await producer.send(topic, b"prepared")
            return await producer.prepare()

    async def case():
        decided = await prepare()
        assert await read(node, topic) == []
        async with Producer(node, transactional_id=id_, two_phase_commit=True) as producer:
            assert producer.kept == decided
            with pytest.raises(RuntimeError):
                producer.begin()
            assert await producer.complete(decided)
            assert await read(node, topic) == ["prepared"]
            assert not await producer.complete(decided), "it is over"
            producer.begin()
            await producer.send(topic, b"next")
            await producer.commit()
        assert await read(node, topic) == ["next", "prepared"]

    run(case())


def test_a_prepared_transaction_that_was_not_decided_for_is_aborted(node, topic, id_):
    async def case():
        async with Producer(node, transactional_id=id_, two_phase_commit=True) as producer:
            producer.begin()
            await producer.send(topic, b"prepared")
            prepared = await producer.prepare()
        async with Producer(node, transactional_id=id_, two_phase_commit=True) as producer:
            assert not await producer.complete(PreparedTransaction(prepared.producer_id, prepared.producer_epoch - 1))
            async with producer.transaction():
                await producer.send(topic, b"next")
        assert await read(node, topic) == ["next"]

    run(case())


def test_the_one_that_prepared_may_complete(node, topic, id_):
    async def case():
        async with Producer(node, transactional_id=id_, two_phase_commit=True) as producer:
            for number in range(3):
                producer.begin()
                await producer.send(topic, b"%d" % number)
                assert await producer.complete(await producer.prepare())
        assert await read(node, topic) == ["0", "1", "2"]

    run(case())


def test_two_phases_are_not_offered_where_they_are_off(tmp_path):
    async def case(bootstrap):
        with pytest.raises(UnsupportedVersion):
            async with Producer(bootstrap, transactional_id="t", two_phase_commit=True):
                pass

    with Cluster() as cluster:
        run(case(cluster.bootstrap))


# -- transaction version 1 ------------------------------------------------------------------------------------------


def test_at_version_1_partitions_and_offsets_are_added_by_requests_of_their_own():
    async def case(bootstrap):
        async with Admin(bootstrap) as admin:
            await admin.update_features({"transaction.version": 1}, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
            await admin.create_topics([NewTopic("old", partitions=2)])
        async with Producer(bootstrap, transactional_id="t") as producer, Admin(bootstrap) as admin:
            for commits in (True, False, True):
                producer.begin()
                for partition in range(2):
                    await producer.send("old", str(commits).encode(), partition=partition)
                await producer.flush()
                await producer.send_offsets({TopicPartition("old", 0): 4 if commits else 9}, "g")
                await (producer.commit() if commits else producer.abort())
            assert await read(bootstrap, "old") == ["True"] * 4
            assert (await admin.group_offsets("g"))[TopicPartition("old", 0)].offset == 4
            assert (await admin.describe_transaction("t")).producer_epoch == 0, "the epoch stays"
            async with Producer(bootstrap, transactional_id="t"):
                producer.begin()
                with pytest.raises(ProducerFenced):
                    await producer.send("old", b"fenced", partition=0)

    with Cluster() as cluster:
        run(case(cluster.bootstrap))


def test_at_version_1_a_producer_goes_on_after_a_failed_transaction_with_a_new_epoch():
    async def case(bootstrap):
        async with Admin(bootstrap) as admin:
            await admin.update_features({"transaction.version": 1}, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
            await admin.create_topics([NewTopic("old", partitions=1, configs={"max.message.bytes": "1000"})])
            async with Producer(bootstrap, transactional_id="t") as producer:
                producer.begin()
                await producer.send("old", b"fits")
                await producer.send("old", bytes(5000))
                with pytest.raises(MessageTooLarge):
                    await producer.commit()
                await producer.abort()
                async with producer.transaction():
                    await producer.send("old", b"next")
                assert (await admin.describe_transaction("t")).producer_epoch == 1
        assert await read(bootstrap, "old") == ["next"]

    with Cluster() as cluster:
        run(case(cluster.bootstrap))

"""The admin client on a running node. (KAVKA_TEST_BOOTSTRAP runs the same on any Kafka.)"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from kavka.client import (
    DEFAULT,
    Admin,
    ConfigResource,
    ConfigSource,
    NewTopic,
    Producer,
    QuotaEntity,
    ResourceType,
    TopicPartition,
)
from kavka.model.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicException,
    InvalidUpdateVersion,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from kavka.testing.plugin import Kavka


def run(kavka: Kavka, work: Callable[[Admin], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with asyncio.timeout(60), Admin(kavka.bootstrap) as admin:
            await work(admin)

    asyncio.run(inside())


async def settled(check: Callable[[], Awaitable[bool]]) -> None:
    """A broker may answer from metadata that is a moment old."""
    deadline = time.monotonic() + 10
    while not await check():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def test_a_topic_is_created_listed_described_and_deleted(kavka: Kavka) -> None:
    name = kavka.topic() + "-x"

    async def work(admin: Admin) -> None:
        created = await admin.create_topic(name, partitions=3, configs={"retention.ms": "1000"})
        assert (created.name, created.partitions, created.replication_factor) == (name, 3, 1)
        assert (name, created.id, False, 3) in await admin.list_topics()
        described = await admin.describe_topic(name)
        assert described.id == created.id
        assert [(row.index, row.replicas, row.isr) for row in described.partitions] == [
            (index, (row.leader,), (row.leader,)) for index, row in enumerate(described.partitions)
        ]
        with pytest.raises(TopicAlreadyExists):
            await admin.create_topic(name)
        await admin.delete_topic(name)
        assert name not in {topic.name for topic in await admin.list_topics()}
        with pytest.raises(UnknownTopicOrPartition):
            await admin.describe_topic(name)
        with pytest.raises(UnknownTopicOrPartition):
            await admin.delete_topic(name)

    run(kavka, work)


def test_what_cannot_be_created_says_why(kavka: Kavka) -> None:
    async def work(admin: Admin) -> None:
        with pytest.raises(InvalidTopicException):
            await admin.create_topic("no spaces allowed")
        with pytest.raises(InvalidPartitions):
            await admin.create_topic("x", partitions=0)
        with pytest.raises(InvalidReplicationFactor):
            await admin.create_topic("x", replication_factor=99)
        with pytest.raises(InvalidConfig, match=r"no\.such\.config"):
            await admin.create_topic("x", configs={"no.such.config": "1"})

    run(kavka, work)


def test_validation_creates_nothing(kavka: Kavka) -> None:
    name = kavka.topic() + "-x"

    async def work(admin: Admin) -> None:
        assert (await admin.create_topic(name, partitions=2, validate_only=True)).partitions == 2
        assert name not in {topic.name for topic in await admin.list_topics()}

    run(kavka, work)


def test_replicas_can_be_assigned_by_hand(kavka: Kavka) -> None:
    name = kavka.topic() + "-x"

    async def work(admin: Admin) -> None:
        (node,) = (await admin.describe_cluster()).nodes
        created = await admin.create_topics([NewTopic(name, assignments={0: [node.id], 1: [node.id]})])
        assert created[name].partitions == 2
        await admin.delete_topics([name])

    run(kavka, work)


def test_a_topic_grows_but_does_not_shrink(kavka: Kavka) -> None:
    topic = kavka.topic(partitions=2)

    async def work(admin: Admin) -> None:
        await admin.create_partitions(topic, 4, validate_only=True)
        assert len((await admin.describe_topic(topic)).partitions) == 2
        await admin.create_partitions(topic, 4)

        async def has_grown() -> bool:
            return len((await admin.describe_topic(topic)).partitions) == 4

        await settled(has_grown)
        with pytest.raises(InvalidPartitions):
            await admin.create_partitions(topic, 3)

    run(kavka, work)


def test_configs_are_set_deleted_appended_subtracted_and_replaced(kavka: Kavka) -> None:
    topic = ConfigResource.topic(kavka.topic(configs={"retention.ms": "1000"}))

    async def changed(admin: Admin) -> dict[str, str | None]:
        entries = (await admin.describe_configs(topic))[topic].values()
        return {entry.name: entry.value for entry in entries if entry.source is ConfigSource.TOPIC}

    async def becomes(admin: Admin, expected: dict[str, str]) -> None:
        async def check() -> bool:
            return await changed(admin) == expected

        await settled(check)

    async def work(admin: Admin) -> None:
        assert await changed(admin) == {"retention.ms": "1000"}
        await admin.alter_configs(topic, set={"cleanup.policy": "compact"}, delete=["retention.ms"])
        await becomes(admin, {"cleanup.policy": "compact"})
        await admin.alter_configs(topic, append={"cleanup.policy": "delete"})
        await becomes(admin, {"cleanup.policy": "compact,delete"})
        await admin.alter_configs(topic, subtract={"cleanup.policy": "compact"})
        await becomes(admin, {"cleanup.policy": "delete"})
        await admin.alter_configs(topic, set={"segment.bytes": "1048576"}, validate_only=True)
        await admin.replace_configs(topic, {"max.message.bytes": "5000"})
        await becomes(admin, {"max.message.bytes": "5000"})
        with pytest.raises(InvalidConfig):
            await admin.alter_configs(topic, set={"retention.ms": "soon"})

    run(kavka, work)


def test_quotas_are_set_shown_and_removed(kavka: Kavka) -> None:
    app = kavka.topic()  # a name that no other test has
    both, anybody = QuotaEntity(user="alice", client_id=app), QuotaEntity(user=DEFAULT, client_id=app)

    async def becomes(admin: Admin, wanted: QuotaEntity, expected: dict[QuotaEntity, dict[str, float]]) -> None:
        async def check() -> bool:
            return await admin.describe_quotas(wanted) == expected

        await settled(check)

    async def work(admin: Admin) -> None:
        await admin.alter_quotas(both, {"producer_byte_rate": 1024.0, "request_percentage": 12.5})
        await admin.alter_quotas(anybody, {"consumer_byte_rate": 2048.0})
        of_alice = {both: {"producer_byte_rate": 1024.0, "request_percentage": 12.5}}
        await becomes(admin, QuotaEntity(client_id=app), {**of_alice, anybody: {"consumer_byte_rate": 2048.0}})
        await becomes(admin, QuotaEntity(user="alice", client_id=app), of_alice)
        await becomes(admin, anybody, {anybody: {"consumer_byte_rate": 2048.0}})
        assert await admin.describe_quotas(QuotaEntity(client_id=app), strict=True) == {}
        with pytest.raises(InvalidRequest):
            await admin.alter_quotas(both, {"producer_byte_rate": -1.0})
        await admin.alter_quotas(both, {"producer_byte_rate": None, "request_percentage": None}, validate_only=True)
        await admin.alter_quotas(both, {"producer_byte_rate": None, "request_percentage": None})
        await admin.alter_quotas(anybody, {"consumer_byte_rate": None})
        await becomes(admin, QuotaEntity(client_id=app), {})

    run(kavka, work)


def test_configs_know_their_synonyms_types_and_documentation(kavka: Kavka) -> None:
    topic = ConfigResource.topic(kavka.topic(configs={"retention.ms": "1000"}))

    async def work(admin: Admin) -> None:
        found = await admin.describe_configs(topic, names=["retention.ms"], synonyms=True, documentation=True)
        (entry,) = found[topic].values()
        assert (entry.value, entry.type.name, entry.read_only, entry.sensitive) == ("1000", "LONG", False, False)
        assert entry.synonyms[0] == ("retention.ms", "1000", ConfigSource.TOPIC)
        assert entry.documentation

    run(kavka, work)


def test_brokers_have_configs_of_their_own(kavka: Kavka) -> None:
    async def work(admin: Admin) -> None:
        (node,) = (await admin.describe_cluster()).nodes
        broker = ConfigResource.broker(node.id)
        found = (await admin.describe_configs(broker, names=["node.id", "log.segment.bytes"]))[broker]
        assert found["node.id"].value == str(node.id)
        assert found["node.id"].read_only
        assert found["log.segment.bytes"].value == "1073741824"

    run(kavka, work)


def test_config_resources_are_listed(kavka: Kavka) -> None:
    topic = kavka.topic()

    async def work(admin: Admin) -> None:
        listed = await admin.list_config_resources(ResourceType.TOPIC)
        assert ConfigResource.topic(topic) in listed
        assert {resource.type for resource in listed} == {ResourceType.TOPIC}
        assert ResourceType.BROKER in {resource.type for resource in await admin.list_config_resources()}

    run(kavka, work)


def test_the_cluster_its_quorum_and_its_features_are_described(kavka: Kavka) -> None:
    async def work(admin: Admin) -> None:
        cluster = await admin.describe_cluster()
        assert len(cluster.cluster_id) == 22
        (node,) = cluster.nodes
        assert f"{node.host}:{node.port}" == kavka.bootstrap
        quorum = await admin.describe_quorum()
        assert quorum.leader_id == node.id
        assert [voter.id for voter in quorum.voters] == [node.id]
        assert 0 < quorum.high_watermark <= quorum.voters[0].log_end_offset
        features = await admin.describe_features()
        assert features.finalized["metadata.version"] == 30
        assert features.supported["metadata.version"].max == 30
        with pytest.raises(InvalidUpdateVersion):
            await admin.update_features({"metadata.version": 999}, validate_only=True)

    run(kavka, work)


def test_log_dirs_and_producers_of_a_partition_are_described(kavka: Kavka) -> None:
    topic = kavka.topic(partitions=2)
    used, unused = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def work(admin: Admin) -> None:
        async with Producer(kavka.bootstrap) as producer:
            await producer.send_and_wait(topic, b"v" * 1000, partition=0)
            await producer.send_and_wait(topic, b"v" * 1000, partition=0)
        (dirs,) = (await admin.describe_log_dirs([used, unused])).values()
        replicas = {tp: replica for each in dirs for tp, replica in each.replicas.items()}
        assert replicas[used].size_bytes > 2000
        assert replicas[unused].size_bytes == 0
        assert all(each.usable_bytes > 0 for each in dirs)
        producers = await admin.describe_producers(used, unused)
        assert [each.last_sequence for each in producers[used]] == [1]
        assert producers[unused] == []

    run(kavka, work)

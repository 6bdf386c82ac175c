"""Streams groups (KIP-1071): every error and every status, and where they meet the other kinds of groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jvm.differential.areas.configs import SAFE_DOWNGRADE, UPGRADE, features
from jvm.differential.areas.group_offsets import commit, fetch, forget
from jvm.differential.areas.groups import heartbeat as classic_heartbeat
from jvm.differential.areas.groups import join, leave, sync
from jvm.differential.areas.produce import ANY_PRODUCER
from jvm.differential.areas.topics import create, topic
from jvm.differential.case import Case, Seen

from kavka.protocol.schemas import incremental_alter_configs as configs
from kavka.protocol.schemas import streams_group_heartbeat as schema
from kavka.protocol.schemas.add_offsets_to_txn import AddOffsetsToTxnRequest
from kavka.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kavka.protocol.schemas.delete_groups import DeleteGroupsRequest
from kavka.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kavka.protocol.schemas.describe_groups import DescribeGroupsRequest
from kavka.protocol.schemas.end_txn import EndTxnRequest
from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest
from kavka.protocol.schemas.init_producer_id import InitProducerIdRequest
from kavka.protocol.schemas.list_groups import ListGroupsRequest
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from kavka.protocol.schemas.streams_group_describe import StreamsGroupDescribeRequest
from kavka.protocol.schemas.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kavka.protocol.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

TOPIC_RESOURCE, BROKER_RESOURCE, GROUP_RESOURCE = 2, 4, 32
SET_KEYS = ["cleanup.policy", "retention.ms", "segment.bytes", "message.timestamp.type", "min.insync.replicas"]
TRANSACTION = "streams-transaction"
TOO_MANY = 5
"""More replicas than there are brokers: nobody can create such a topic."""


def internal(name: str, partitions: int = 0, replicas: int = 0, **settings: str) -> schema.TopicInfo:
    """An internal topic of a topology."""
    pairs = [schema.KeyValue(key=key.replace("_", "."), value=value) for key, value in settings.items()]
    return schema.TopicInfo(name=name, partitions=partitions, replication_factor=replicas, topic_configs=pairs)


def part(id_: str = "0", sources: tuple[str, ...] = ("streamed",), **rest: Any) -> schema.Subtopology:
    """A subtopology with only what is said."""
    values: dict[str, Any] = {
        "source_topic_regex": [],
        "state_changelog_topics": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [],
        **rest,
    }
    return schema.Subtopology(subtopology_id=id_, source_topics=list(sources), **values)


def topology(*parts: schema.Subtopology, epoch: int = 0) -> schema.Topology:
    return schema.Topology(epoch=epoch, subtopologies=list(parts) or [part()])


def together(sources: list[int], repartitions: list[int]) -> list[schema.CopartitionGroup]:
    return [
        schema.CopartitionGroup(
            source_topics=sources, source_topic_regex=[], repartition_source_topics=repartitions
        )
    ]  # fmt: skip


def tasks(*partitions: int, of: str = "0") -> list[schema.TaskIds]:
    return [schema.TaskIds(subtopology_id=of, partitions=list(partitions))] if partitions else []


def beat(group: str = "streaming", member: str = "m1", epoch: int = 0, **rest: Any) -> StreamsGroupHeartbeatRequest:
    """A heartbeat with only what is said."""
    rest.setdefault("endpoint_information_epoch", -1)
    return StreamsGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **rest)


def joins(group: str = "streaming", member: str = "m1", **rest: Any) -> StreamsGroupHeartbeatRequest:
    """A first heartbeat."""
    values: dict[str, Any] = {
        "rebalance_timeout_ms": 10_000,
        "topology": topology(),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": f"process of {member}",
        **rest,
    }
    return beat(group, member, 0, **values)


def owning(member: str, epoch_of: str, *active: int, **rest: Any) -> Callable[[Seen], object]:
    """A heartbeat at the epoch that an earlier answer said, of a member that has tasks."""

    def build(seen: Seen) -> object:
        return beat(
            member=member,
            epoch=seen.answer(epoch_of).member_epoch,
            active_tasks=tasks(*active),
            standby_tasks=[],
            warmup_tasks=[],
            **rest,
        )

    return build


def describe(*groups: str, operations: bool = False) -> StreamsGroupDescribeRequest:
    return StreamsGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=operations)


def configure(
    group: str, name: str, value: str, resource_type: int = GROUP_RESOURCE
) -> configs.IncrementalAlterConfigsRequest:
    row = configs.AlterableConfig(name=name, config_operation=0, value=value)
    resource = configs.AlterConfigsResource(resource_type=resource_type, resource_name=group, configs=[row])
    return configs.IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def refused(name: str, request: StreamsGroupHeartbeatRequest) -> Case:
    return Case(f"streams: {name}", request, 0)


PREPARE = [
    Case(
        "streams: its topics",
        create(topic("streamed", 3), topic("streamed-too", 2), topic("streams-log", 3), topic("streams-wrong", 9)),
        7,
    ),
    Case("streams: no waiting", configure("streaming", "streams.initial.rebalance.delay.ms", "0"), 1),
    Case("streams: no pause", configure("streaming", "streams.assignment.interval.ms", "0"), 1),
    Case("streams: too many standbys", configure("streaming", "streams.num.standby.replicas", "9"), 1),
    *[
        Case(
            f"{kind}: too long a pause for all groups",
            configure("", f"group.{kind}.assignment.interval.ms", "15001", BROKER_RESOURCE),
            1,
        )
        for kind in ("consumer", "share", "streams")
    ],
    Case("streams: too short a session", configure("streaming", "streams.session.timeout.ms", "10"), 1),
]
REFUSED = [
    refused("no group id", joins("")),
    refused("no member id", joins(member="")),
    refused("an empty rack", joins(rack_id="")),
    refused("a static member", joins(instance_id="seat")),
    refused("task offsets", joins(task_offsets=[])),
    refused("task end offsets", joins(task_end_offsets=[])),
    refused("warm-up tasks", beat(epoch=1, active_tasks=[], standby_tasks=[], warmup_tasks=tasks(0))),
    refused("a pattern", joins(topology=topology(part(source_topic_regex=["str.*"])))),
    refused("joins without a timeout", joins(rebalance_timeout_ms=-1)),
    refused("joins without a topology", joins(topology=None)),
    refused("joins with active tasks", joins(active_tasks=tasks(0))),
    refused("joins with standby tasks", joins(standby_tasks=tasks(0))),
    refused("some tasks only", beat(epoch=1, active_tasks=[])),
    refused("a topology later", beat(epoch=1, topology=topology())),
    refused("an epoch that is none", beat(epoch=-3)),
    refused("leaves a seat", beat(epoch=-2)),
    refused("a changelog with partitions", joins(topology=topology(part(state_changelog_topics=[internal("c", 2)])))),
    refused("an internal topic of Kafka", joins(topology=topology(part(sources=("__consumer_offsets",))))),
    refused("a topic that cannot be", joins(topology=topology(part(repartition_sink_topics=["a/b"])))),
    refused("a subtopology without sources", joins(topology=topology(part(sources=())))),
    refused(
        "a loop",
        joins(
            topology=topology(
                part(sources=(), repartition_sink_topics=["r"], repartition_source_topics=[internal("r")])
            )
        ),
    ),
    refused(
        "a repartition topic that nobody writes",
        joins(topology=topology(part(repartition_source_topics=[internal("r")]))),
    ),
    refused("a negative topology epoch", joins(topology=topology(epoch=-1))),
    refused("a subtopology twice", joins(topology=topology(part(), part()))),
    refused("a copartition group of nothing", joins(topology=topology(part(copartition_groups=together([7], []))))),
    refused("an unknown group", beat("nobody", epoch=1)),
    refused("leaves an unknown group", beat("nobody", epoch=-1)),
    refused("a group of another kind", joins("simple")),
]
STATUSES = [
    Case("streams: missing sources", joins("missing", topology=topology(part(sources=("nowhere",)))), 0),
    Case(
        "streams: partitioned differently",
        joins(
            "mixed",
            topology=topology(part(sources=("streamed", "streamed-too"), copartition_groups=together([0, 1], []))),
        ),
        0,
    ),
    Case(
        "streams: a changelog that is there and wrong",
        joins("wrong", topology=topology(part(state_changelog_topics=[internal("streams-wrong")]))),
        0,
    ),
    Case(
        "streams: a repartition topic that does not fit",
        joins(
            "fixed",
            topology=topology(
                part(repartition_sink_topics=["by-key"]),
                part(
                    "1",
                    ("streamed-too",),
                    repartition_source_topics=[internal("by-key", 7)],
                    copartition_groups=together([0], [0]),
                ),
            ),
        ),
        0,
    ),
    Case(
        "streams: a changelog that nobody can create",
        joins("impossible", topology=topology(part(state_changelog_topics=[internal("too-much", 0, TOO_MANY)]))),
        0,
        masks={"status.*.status_detail": "<what the controller said, if it has answered already>"},
    ),
    Case(
        "streams: an endpoint without sources",
        joins(
            "endless",
            topology=topology(part(sources=("nowhere",))),
            user_endpoint=schema.Endpoint(host="elsewhere", port=1),
        ),
        0,
    ),
    Case("streams: leaves without sources", beat("endless", epoch=-1), 0),
    Case("delete: a group without sources", DeleteGroupsRequest(groups_names=["endless"]), 2),
    Case("streams: first gathers", joins("gathering"), 0),
    Case("streams: gathers on", beat("gathering", epoch=1), 0),
    *[
        Case(f"streams: {group} is described", describe(group), 0)
        for group in ("missing", "mixed", "wrong", "fixed", "impossible", "gathering")
    ],
    Case("list: streams groups that are not ready", ListGroupsRequest(types_filter=["streams"]), 5),
    Case("list: in the state NotReady", ListGroupsRequest(states_filter=["NotReady"]), 5),
    Case("list: in the state not_ready", ListGroupsRequest(states_filter=["Not_Ready"]), 5),
]
BY_KEY, COUNTS = "counting-by-word-repartition", "counting-counts-changelog"
"""Names that a hash table of Java has in the order of their letters."""
COUNTING = topology(
    part(repartition_sink_topics=[BY_KEY]),
    part(
        "1",
        sources=(),
        repartition_source_topics=[internal(BY_KEY, cleanup_policy="delete", retention_ms="-1")],
        state_changelog_topics=[internal(COUNTS, replicas=1, cleanup_policy="compact", segment_bytes="2097152")],
    ),
)
INTERNAL = [
    Case(
        "streams: no waiting for those who count", configure("counting", "streams.initial.rebalance.delay.ms", "0"), 1
    ),
    Case("streams: no pause for those who count", configure("counting", "streams.assignment.interval.ms", "0"), 1),
    Case("streams: internal topics are made", joins("counting", topology=COUNTING), 0),
    Case(
        "streams: internal topics are there",
        MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in (BY_KEY, COUNTS)], allow_auto_topic_creation=False
        ),
        12,
        until=lambda answer: not any(one.error_code for one in answer.topics),
    ),
    Case(
        "streams: internal topics are as they were wanted",
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=SET_KEYS)
                for name in (BY_KEY, COUNTS)
            ]
        ),
        4,
    ),
    Case(
        "streams: tasks of internal topics",
        lambda seen: beat("counting", epoch=seen.answer("streams: internal topics are made").member_epoch),
        0,
        until=lambda answer: not answer.status,
    ),
    Case("streams: a group with internal topics", describe("counting"), 0),
    Case("streams: who counts leaves", beat("counting", epoch=-1), 0),
    Case("delete: a group with internal topics", DeleteGroupsRequest(groups_names=["counting"]), 2),
    Case(
        "streams: internal topics outlive their group",
        MetadataRequest(topics=[MetadataRequestTopic(name=COUNTS)], allow_auto_topic_creation=False),
        12,
    ),
]
FULL = [
    *[Case(f"streams: {member} of three at most", joins("full", member), 0) for member in ("f1", "f2", "f3")],
    Case("streams: one too many", joins("full", "f4"), 0),
    Case("streams: a member of a full group joins again", joins("full", "f1"), 0),
    Case("streams: a member of a full group goes on", beat("full", "f2", 1), 0),
    Case("streams: one leaves the full group", beat("full", "f3", -1), 0),
    Case("streams: now there is room", joins("full", "f4"), 0),
    *[Case(f"streams: {member} leaves", beat("full", member, -1), 0) for member in ("f1", "f2", "f4")],
    Case("delete: a group that was full", DeleteGroupsRequest(groups_names=["full"]), 2),
]
DISABLED = [
    Case("lower a feature: streams", features(("streams.version", 0, SAFE_DOWNGRADE)), 1),
    Case("streams: joins without the feature", joins("late"), 0),
    Case("streams: goes on without the feature", beat("nobody", epoch=1), 0),
    Case("streams: described without the feature", describe("late"), 0),
    Case("raise a feature: streams", features(("streams.version", 1, UPGRADE)), 1),
    Case("streams: described with the feature again", describe("late"), 0),
]
STATEFUL = topology(part(state_changelog_topics=[internal("streams-log")]), epoch=3)
MEMBERS = [
    Case("streams: joins", joins(topology=STATEFUL), 0),
    Case("streams: joins again", joins(topology=STATEFUL), 0),
    Case("streams: nothing new", owning("m1", "streams: joins again", 0, 1, 2), 0),
    Case("streams: a task that is not", owning("m1", "streams: joins again", 3), 0),
    Case("streams: an unknown member", beat(member="m9", epoch=1), 0),
    Case("streams: an epoch to come", beat(epoch=99), 0),
    Case("streams: an epoch long past", beat(epoch=1), 0),
    Case("streams: another topology", joins(member="m2", topology=topology(epoch=3)), 0),
    Case("streams: a newer topology", joins(member="m2", topology=topology(epoch=4)), 0),
    Case("streams: a topology that is behind", joins("streaming", "old", topology=topology(epoch=2)), 0),
    Case("streams: who is behind leaves", beat(member="old", epoch=-1), 0),
    Case("streams: who is behind leaves again", beat(member="old", epoch=-1), 0),
    Case(
        "streams: a second member",
        joins(member="m2", topology=STATEFUL, user_endpoint=schema.Endpoint(host="elsewhere", port=1)),
        0,
        client_id="second",
    ),
    Case("streams: the first hears of it", owning("m1", "streams: joins again", 0, 1, 2), 0),
    Case("streams: the group in between", describe("streaming"), 0),
    Case("streams: the first gives back", owning("m1", "streams: joins again", 0, 1), 0),
    Case("streams: the second gets it", owning("m2", "streams: a second member"), 0, client_id="second"),
    Case("streams: the group then", describe("streaming", "nobody", "simple", operations=True), 0),
    Case("streams: a group without a name", describe(""), 0),
    Case("streams: more standbys", configure("streaming", "streams.num.standby.replicas", "1"), 1),
    Case("streams: the first stands by", owning("m1", "streams: the first gives back", 0, 1), 0),
    Case("streams: the group with standbys", describe("streaming"), 0),
    Case("streams: all shall stop", owning("m1", "streams: the first stands by", 0, 1, shutdown_application=True), 0),
    Case("streams: the second hears of it", owning("m2", "streams: the second gets it", 2), 0, client_id="second"),
]


def committing(member: str, since: int | None, partition: int = 0) -> Callable[[Seen], object]:
    """Commit offset 7 in a transaction as a member: so many epochs ago, or at none."""

    def build(seen: Seen) -> object:
        producer = seen.answer("transaction: a producer")
        row = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=7, committed_leader_epoch=0, committed_metadata=""
        )
        epoch = -1 if since is None else seen.answer("streams: all shall stop").member_epoch - since
        return TxnOffsetCommitRequest(
            transactional_id=TRANSACTION,
            group_id="streaming",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            generation_id=epoch,
            member_id=member,
            topics=[TxnOffsetCommitRequestTopic(name="streamed", partitions=[row])],
        )

    return build


TRANSACTIONS = [
    Case(
        "transaction: a coordinator",
        FindCoordinatorRequest(key_type=1, coordinator_keys=[TRANSACTION]),
        4,
        until=lambda answer: answer.coordinators[0].error_code == 0,
    ),
    Case(
        "transaction: a producer",
        InitProducerIdRequest(transactional_id=TRANSACTION, transaction_timeout_ms=60_000),
        4,
        until=lambda answer: answer.error_code == 0,
        masks=ANY_PRODUCER,
    ),
    Case(
        "transaction: takes in the offsets of a streams group",
        lambda seen: AddOffsetsToTxnRequest(
            transactional_id=TRANSACTION,
            producer_id=seen.answer("transaction: a producer").producer_id,
            producer_epoch=seen.answer("transaction: a producer").producer_epoch,
            group_id="streaming",
        ),
        3,
        until=lambda answer: answer.error_code == 0,
    ),
    Case("transaction: as a streams member", committing("m1", 0), 3),
    Case("transaction: as a streams member that is behind", committing("m1", 1), 3),
    Case("transaction: as a streams member long past", committing("m1", 99), 3),
    Case("transaction: for a task of another", committing("m1", 1, 2), 3),
    Case("transaction: as a streams member of an epoch to come", committing("m1", -1), 3),
    Case("transaction: as a streams member without an epoch", committing("m1", None), 3),
    Case("transaction: as an unknown streams member", committing("m9", 0), 3),
    Case("transaction: as nobody to a streams group", committing("", None), 3),
    Case("fetch offsets: amid a transaction", fetch("streaming", topic="streamed", stable=True), 9),
    Case(
        "transaction: ends",
        lambda seen: EndTxnRequest(
            transactional_id=TRANSACTION,
            producer_id=seen.answer("transaction: a producer").producer_id,
            producer_epoch=seen.answer("transaction: a producer").producer_epoch,
            committed=True,
        ),
        3,
    ),
    Case(
        "fetch offsets: after a transaction",
        fetch("streaming", topic="streamed", stable=True),
        9,
        until=lambda answer: not any(row.error_code for row in answer.groups[0].topics[0].partitions),
    ),
]
OTHERS = [
    Case("commit: as a streams member, too old a version", commit("streaming", "m1", 1, topic="streamed"), 8),
    Case("commit: as a streams member of an epoch to come", commit("streaming", "m1", 99, topic="streamed"), 9),
    Case("commit: as an unknown streams member", commit("streaming", "m9", 1, topic="streamed"), 9),
    Case("commit: as nobody to a streams group", commit("streaming", topic="streamed"), 9),
    Case(
        "commit: as a streams member",
        lambda seen: commit("streaming", "m1", seen.answer("streams: all shall stop").member_epoch, topic="streamed"),
        9,
    ),
    Case(
        "commit: as a streams member that is behind",
        lambda seen: commit(
            "streaming", "m1", seen.answer("streams: all shall stop").member_epoch - 1, topic="streamed"
        ),
        9,
    ),
    Case("fetch offsets: as nobody of a streams group", fetch("streaming", topic="streamed"), 9),
    Case("fetch offsets: as an unknown streams member", fetch("streaming", member_id="m9", member_epoch=1), 9),
    Case("delete offsets: a topic that a streams group reads", forget("streaming", topic="streamed"), 0),
    Case("describe: a streams group as a classic one", DescribeGroupsRequest(groups=["streaming"]), 6),
    Case(
        "beat: a streams group as a consumer",
        ConsumerGroupHeartbeatRequest(
            group_id="streaming",
            member_id="c",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["streamed"],
            topic_partitions=[],
        ),
        1,
    ),
    Case("sync: a streams group", sync("streaming", "m1", 1), 5),
    Case("heartbeat: a streams group", classic_heartbeat("streaming", "m1", 1), 4),
    Case("leave: a streams member as a classic one", leave("streaming", ("m1", None)), 5),
    Case("join: a streams group", join("streaming"), 9),
    Case(
        "list: streams groups", ListGroupsRequest(types_filter=["streams"], states_filter=["stable", "Reconciling"]), 5
    ),
    Case("delete: a streams group with members", DeleteGroupsRequest(groups_names=["streaming"]), 2),
    Case("streams: the first leaves", beat(epoch=-1), 0),
    Case("streams: the second leaves", beat(member="m2", epoch=-1), 0),
    Case("streams: the group that is left", describe("streaming"), 0),
    Case("join: an empty streams group", join("streaming"), 9),
    *[
        Case(f"streams: {group} is left", beat(group, epoch=-1), 0)
        for group in ("missing", "mixed", "wrong", "fixed", "impossible", "gathering")
    ],
    Case(
        "delete: empty streams groups",
        DeleteGroupsRequest(groups_names=["missing", "mixed", "wrong", "fixed", "impossible", "gathering"]),
        2,
    ),
    Case("streams: a deleted one", describe("missing"), 0),
]

CASES = [*PREPARE, *REFUSED, *STATUSES, *INTERNAL, *FULL, *MEMBERS, *TRANSACTIONS, *OTHERS, *DISABLED]

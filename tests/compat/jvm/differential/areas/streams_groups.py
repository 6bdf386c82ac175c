"""Streams groups (KIP-1071): every error and every status, and where they meet the other kinds of groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jvm.differential.areas.group_offsets import commit, fetch, forget
from jvm.differential.areas.groups import heartbeat as classic_heartbeat
from jvm.differential.areas.groups import join, leave, sync
from jvm.differential.areas.topics import create, topic
from jvm.differential.case import Case, Seen

from kavka.protocol.schemas import incremental_alter_configs as configs
from kavka.protocol.schemas import streams_group_heartbeat as schema
from kavka.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kavka.protocol.schemas.delete_groups import DeleteGroupsRequest
from kavka.protocol.schemas.describe_groups import DescribeGroupsRequest
from kavka.protocol.schemas.list_groups import ListGroupsRequest
from kavka.protocol.schemas.streams_group_describe import StreamsGroupDescribeRequest
from kavka.protocol.schemas.streams_group_heartbeat import StreamsGroupHeartbeatRequest

GROUP_RESOURCE = 32
TOO_MANY = 5
"""More replicas than there are brokers: nobody can create such a topic."""


def internal(name: str, partitions: int = 0, replicas: int = 0) -> schema.TopicInfo:
    """An internal topic of a topology."""
    return schema.TopicInfo(name=name, partitions=partitions, replication_factor=replicas, topic_configs=[])


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


def configure(group: str, name: str, value: str) -> configs.IncrementalAlterConfigsRequest:
    row = configs.AlterableConfig(name=name, config_operation=0, value=value)
    resource = configs.AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=[row])
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

CASES = [*PREPARE, *REFUSED, *STATUSES, *MEMBERS, *OTHERS]

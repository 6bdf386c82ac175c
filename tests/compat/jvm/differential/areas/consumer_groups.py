"""Consumer groups (KIP-848), and where they meet the classic protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jvm.differential.areas.group_offsets import commit, fetch, forget
from jvm.differential.areas.groups import heartbeat as classic_heartbeat
from jvm.differential.areas.groups import join, leave, sync
from jvm.differential.case import Case, Seen, cases

from kavka.protocol.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from kavka.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kavka.protocol.schemas.delete_groups import DeleteGroupsRequest
from kavka.protocol.schemas.describe_groups import DescribeGroupsRequest
from kavka.protocol.schemas.list_groups import ListGroupsRequest

JOINS: dict[str, Any] = {"rebalance_timeout_ms": 10_000, "subscribed_topic_names": ["grouped"], "topic_partitions": []}


def beat(group: str = "consumer", member: str = "m1", epoch: int = 0, **rest: Any) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat with only what is said."""
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **rest)


def joins(group: str = "consumer", member: str = "m1", **rest: Any) -> ConsumerGroupHeartbeatRequest:
    """A first heartbeat."""
    return beat(group, member, 0, **{**JOINS, **rest})


def describe(*groups: str, operations: bool = False) -> ConsumerGroupDescribeRequest:
    """Look at groups."""
    return ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=operations)


def owning(epoch_of: str, *partitions: int, epoch: int | None = None) -> Callable[[Seen], object]:
    """A heartbeat at the epoch that an earlier answer said, of a member that has partitions."""

    def build(seen: Seen) -> object:
        has = [TopicPartitions(topic_id=seen.topic_id("grouped"), partitions=list(partitions))] if partitions else []
        at = seen.answer(epoch_of).member_epoch if epoch is None else epoch
        return beat(epoch=at, topic_partitions=has)

    return build


REFUSED = [
    *cases(0, 1, name="beat: no group id", request=joins("")),
    *cases(0, 1, name="beat: no member id", request=beat(member="", epoch=1)),
    Case("beat: joins without a member id", joins("ids", ""), 1),
    Case("beat: joins without a member id, which it is given", joins("ids", ""), 0),
    *cases(0, 1, name="beat: an empty instance id", request=joins(instance_id="")),
    Case("beat: an empty rack", joins(rack_id=""), 1),
    Case("beat: joins without a timeout", joins(rebalance_timeout_ms=-1), 1),
    Case("beat: joins with partitions", joins(topic_partitions=None), 1),
    Case("beat: joins without topics", joins(subscribed_topic_names=None), 1),
    Case("beat: an unknown assignor", joins(server_assignor="best"), 1),
    Case("beat: an epoch that is none", beat(epoch=-3), 1),
    Case("beat: leaves a seat that it has not", beat(epoch=-2), 1),
    Case("beat: a pattern that is none", joins("patterns", subscribed_topic_names=None, subscribed_topic_regex="("), 1),
    *cases(0, 1, name="beat: an unknown group", request=beat("nobody", epoch=1)),
    *cases(0, 1, name="beat: leaves an unknown group", request=beat("nobody", epoch=-1)),
]

MEMBERS = [
    Case("beat: joins", joins(), 1),
    Case("beat: joins again", joins(), 1),
    Case("beat: an unknown member", beat(member="m9", epoch=1), 1),
    Case("beat: an epoch to come", beat(epoch=99), 1),
    Case("beat: has what it was given", owning("beat: joins again", 0, 1, 2), 1),
    Case("beat: nothing new", owning("beat: joins again", 0, 1, 2), 1),
    Case("beat: the epoch before, with other partitions", owning("", 1, epoch=1), 1),
    Case("beat: a second member", joins(member="m2"), 1, client_id="second"),
    Case("beat: the first hears of it", owning("beat: joins again", 0, 1, 2), 1),
    *cases(0, 1, name="describe: a consumer group", request=describe("consumer")),
    Case("beat: the second leaves", beat(member="m2", epoch=-1), 1),
    Case("beat: the second leaves again", beat(member="m2", epoch=-1), 1),
    Case("beat: a static member", joins("seats", "s1", instance_id="seat"), 1),
    Case("beat: another one for its seat", joins("seats", "s2", instance_id="seat"), 1),
    Case("beat: a static member leaves its seat", beat("seats", "s1", -2, instance_id="seat"), 1),
    Case("beat: another one takes the seat", joins("seats", "s2", instance_id="seat"), 1),
    Case("beat: the former one", beat("seats", "s1", 1, instance_id="seat"), 1),
    Case("beat: an unknown seat", beat("seats", "s2", 1, instance_id="bench"), 1),
    Case("beat: a pattern", joins("patterns", "p1", subscribed_topic_names=None, subscribed_topic_regex="group.*"), 1),
]

OFFSETS = [
    Case("commit: as a consumer member, too old a version", commit("consumer", "m1", 1), 8),
    Case("commit: as a consumer member of an epoch to come", commit("consumer", "m1", 99), 9),
    Case("commit: as an unknown consumer member", commit("consumer", "m9", 1), 9),
    Case("commit: as nobody to a consumer group", commit("consumer"), 9),
    Case(
        "commit: as a consumer member",
        lambda seen: commit("consumer", "m1", seen.answer("beat: joins again").member_epoch),
        9,
    ),
    Case("fetch offsets: as nobody of a consumer group", fetch("consumer"), 9),
    Case("fetch offsets: as an unknown consumer member", fetch("consumer", member_id="m9", member_epoch=1), 9),
    Case("fetch offsets: at a wrong epoch", fetch("consumer", member_id="m1", member_epoch=99), 9),
    Case("delete offsets: a topic that a consumer group reads", forget("consumer"), 0),
]

LOOK = [
    Case("describe: consumer groups without a name", describe("", "nobody", "simple"), 1),
    Case("describe: what may be done to a consumer group", describe("consumer", "nobody", operations=True), 1),
    Case("describe: a consumer group as a classic one", DescribeGroupsRequest(groups=["consumer"]), 6),
    Case(
        "describe: a consumer group as a classic one, before that was wrong",
        DescribeGroupsRequest(groups=["consumer"]),
        5,
    ),
    Case("list: groups of both types", ListGroupsRequest(types_filter=["consumer", "classic"]), 5),
    Case("delete: a consumer group with members", DeleteGroupsRequest(groups_names=["consumer"]), 2),
]

MIXED = [
    Case("sync: a consumer group", sync("consumer", "m1", 1), 5),
    Case("heartbeat: a consumer group", classic_heartbeat("consumer", "m1", 1), 4),
    Case("leave: a consumer member as a classic one", leave("consumer", ("m1", None)), 5),
    Case("join: a consumer group as something else", join("consumer", protocol_type="connect"), 9),
    Case("join: a consumer group with an unknown member", join("consumer", "x"), 9),
    Case("beat: the last member leaves", beat(epoch=-1), 1),
    Case("delete: an empty consumer group", DeleteGroupsRequest(groups_names=["consumer"]), 2),
]

CASES = [*REFUSED, *MEMBERS, *OFFSETS, *LOOK, *MIXED]

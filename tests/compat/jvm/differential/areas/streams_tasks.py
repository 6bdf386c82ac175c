"""Streams groups: how many partitions topologies ask for, how tasks move, who is fenced, other kinds of groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jvm.differential.areas.consumer_groups import describe as consumer_describe
from jvm.differential.areas.group_offsets import fetch
from jvm.differential.areas.share_groups import alter, offsets
from jvm.differential.areas.share_groups import describe as share_describe
from jvm.differential.areas.share_groups import forget as share_forget
from jvm.differential.areas.share_groups import joins as share_joins
from jvm.differential.areas.streams_groups import (
    beat,
    configure,
    describe,
    internal,
    joins,
    part,
    tasks,
    together,
    topology,
)
from jvm.differential.areas.topics import create, topic
from jvm.differential.case import Case, Seen

from kavka.model.types import Uuid
from kavka.protocol.schemas import streams_group_heartbeat as schema
from kavka.protocol.schemas.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kavka.protocol.schemas.delete_groups import DeleteGroupsRequest
from kavka.protocol.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic


def quick(group: str) -> list[Case]:
    """A group that waits for nobody and pauses between no assignments."""
    return [
        Case(f"streams {group}: no waiting", configure(group, "streams.initial.rebalance.delay.ms", "0"), 1),
        Case(f"streams {group}: no pause", configure(group, "streams.assignment.interval.ms", "0"), 1),
    ]


def ends(group: str, *members: str) -> list[Case]:
    """All members leave, and the group is deleted."""
    return [
        *[Case(f"streams {group}: {member} leaves in the end", beat(group, member, -1), 0) for member in members],
        Case(f"streams {group}: is deleted in the end", DeleteGroupsRequest(groups_names=[group]), 2),
    ]


def at(
    group: str, member: str, epoch_of: str, owned: Sequence[int] | None = None, **rest: Any
) -> Callable[[Seen], object]:
    """A heartbeat at the epoch that an earlier answer said, of a member that has tasks; None does not say."""

    def build(seen: Seen) -> object:
        has: dict[str, Any] = {}
        if owned is not None:
            has = {"active_tasks": tasks(*owned), "standby_tasks": [], "warmup_tasks": []}
        return beat(group, member, seen.answer(epoch_of).member_epoch, **has, **rest)

    return build


def fetches(group: str, member: str, epoch_of: str) -> Callable[[Seen], object]:
    """A member asks for its offsets, at the epoch that an earlier answer said."""
    return lambda seen: fetch(
        group, topic="streamed", member_id=member, member_epoch=seen.answer(epoch_of).member_epoch
    )


# -- topologies -------------------------------------------------------------------------------------------

# Internal topics have names that a hash table of Java has in the order of their letters, which is how Kafka tells them.
PLANS: dict[str, schema.Topology] = {
    "one repartition topic after another": topology(
        part(repartition_sink_topics=["hop-1"]),
        part(
            "1",
            (),
            repartition_source_topics=[internal("hop-1")],
            repartition_sink_topics=["hop-2"],
            state_changelog_topics=[internal("store-1")],
        ),
        part(
            "2",
            (),
            repartition_source_topics=[internal("hop-2", 4)],
            state_changelog_topics=[internal("store-2")],
        ),
    ),
    "a repartition topic beside a source": topology(
        part(repartition_sink_topics=["joined"]),
        part(
            "1",
            ("streamed-too",),
            repartition_source_topics=[internal("joined")],
            copartition_groups=together([0], [0]),
            state_changelog_topics=[internal("joined-log")],
        ),
    ),
    "two fixed numbers that differ": topology(
        part(repartition_sink_topics=["two-1", "two-2"]),
        part(
            "1",
            (),
            repartition_source_topics=[internal("two-1", 2), internal("two-2", 5)],
            copartition_groups=together([], [0, 1]),
        ),
    ),
    "a fixed number, and one that follows": topology(
        part(repartition_sink_topics=["fixed-1", "loose-1"]),
        part(
            "1",
            (),
            repartition_source_topics=[internal("fixed-1", 5), internal("loose-1")],
            copartition_groups=together([], [0, 1]),
        ),
    ),
    "two that follow the larger one": topology(
        part(repartition_sink_topics=["free-2"]),
        part("1", ("streamed-too",), repartition_sink_topics=["free-3"]),
        part(
            "2",
            (),
            repartition_source_topics=[internal("free-2"), internal("free-3")],
            copartition_groups=together([], [0, 1]),
        ),
    ),
    "a repartition topic that is there": topology(
        part(repartition_sink_topics=["streams-wrong"]),
        part("1", (), repartition_source_topics=[internal("streams-wrong")]),
    ),
    "a repartition topic that is there and wrong": topology(
        part(repartition_sink_topics=["streams-wrong"]),
        part("1", (), repartition_source_topics=[internal("streams-wrong", 5)]),
    ),
    "four sources that are missing": topology(part(sources=("gone-f", "gone-b", "gone-c", "gone-a"))),
    "four internal topics that are missing": topology(
        part(state_changelog_topics=[internal(f"kept-{letter}") for letter in "badc"])
    ),
    "nothing at all": schema.Topology(epoch=0, subtopologies=[]),
    "one source for two subtopologies": topology(part(), part("1")),
    "the same source twice": topology(part(sources=("streamed", "streamed"))),
}


def lacks_internal_topics(answer: Any) -> bool:
    """Whether a heartbeat was answered that internal topics are missing, which are being made."""
    return any(one.status_code == 3 for one in answer.status)


MADE = ["hop-1", "hop-2", "store-1", "store-2", "joined", "joined-log", "fixed-1", "loose-1", "free-2"]
MADE += ["free-3", *(f"kept-{letter}" for letter in "abcd")]
TOPOLOGIES = [
    *[Case(f"streams plan: {name}", joins(name, topology=wanted), 0) for name, wanted in PLANS.items()],
    Case(
        "streams plan: the topics that are made",
        MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in MADE], allow_auto_topic_creation=False),
        12,
        until=lambda answer: not any(one.error_code for one in answer.topics),
    ),
    *[
        Case(
            f"streams plan: {name}, later",
            beat(name, epoch=1),
            0,
            until=lambda answer: not lacks_internal_topics(answer),
        )
        for name in PLANS
    ],
    *[Case(f"streams plan: {name}, described", describe(name), 0) for name in PLANS],
    *[case for name in PLANS for case in ends(name, "m1")],
]

# -- tasks that move --------------------------------------------------------------------------------------

HERE = schema.Endpoint(host="here", port=1)
MOVING = [
    *quick("moving"),
    Case("streams moving: joins", joins("moving", user_endpoint=HERE, rack_id="r", client_tags=[]), 0),
    Case("streams moving: has all", at("moving", "m1", "streams moving: joins", (0, 1, 2)), 0),
    Case(
        "streams moving: knows the endpoints",
        lambda seen: beat(
            "moving",
            "m1",
            seen.answer("streams moving: joins").member_epoch,
            endpoint_information_epoch=seen.answer("streams moving: has all").endpoint_information_epoch,
        ),
        0,
    ),
    Case("streams moving: a second one", joins("moving", "m2"), 0, client_id="second"),
    Case("streams moving: shall give back", at("moving", "m1", "streams moving: joins", (0, 1, 2)), 0),
    Case("streams moving: has not given back", at("moving", "m1", "streams moving: joins", (0, 1, 2)), 0),
    Case("streams moving: does not say what it has", at("moving", "m1", "streams moving: joins"), 0),
    Case("streams moving: has given back", at("moving", "m1", "streams moving: joins", (0, 1)), 0),
    Case(
        "streams moving: the epoch before, with what it may have",
        at("moving", "m1", "streams moving: joins", (0, 1)),
        0,
    ),
    Case("streams moving: the epoch before, with less", at("moving", "m1", "streams moving: joins", (0,)), 0),
    Case("streams moving: the epoch before, with more", at("moving", "m1", "streams moving: joins", (0, 1, 2)), 0),
    Case("streams moving: the epoch before, without a word", at("moving", "m1", "streams moving: joins"), 0),
    Case(
        "streams moving: the second one gets it",
        at("moving", "m2", "streams moving: a second one", ()),
        0,
        client_id="second",
    ),
    Case("streams moving: described", describe("moving"), 0),
    Case("streams moving: joins anew", joins("moving", user_endpoint=HERE), 0),
    Case(
        "streams moving: from elsewhere",
        at("moving", "m1", "streams moving: joins anew", (0, 1)),
        0,
        client_id="elsewhere",
    ),
    Case("fetch offsets: as a streams member", fetches("moving", "m2", "streams moving: the second one gets it"), 9),
    Case("fetch offsets: as a streams member at a wrong epoch", fetch("moving", member_id="m2", member_epoch=99), 9),
    Case("streams moving: leaves, and all shall stop", beat("moving", "m1", -1, shutdown_application=True), 0),
    Case(
        "streams moving: hears that all shall stop",
        at("moving", "m2", "streams moving: the second one gets it", (2,)),
        0,
        client_id="second",
    ),
    Case("streams moving: joins those that shall stop", joins("moving", "m3"), 0),
    *[Case(f"streams moving: {member} leaves", beat("moving", member, -1), 0) for member in ("m2", "m3")],
    Case("streams moving: begins anew", joins("moving"), 0),
    *ends("moving", "m1"),
]
PAUSED = [
    Case("streams paused: no waiting", configure("paused", "streams.initial.rebalance.delay.ms", "0"), 1),
    Case("streams paused: a long pause", configure("paused", "streams.assignment.interval.ms", "15000"), 1),
    Case("streams paused: joins", joins("paused"), 0),
    Case("streams paused: a second one", joins("paused", "m2"), 0, client_id="second"),
    Case(
        "streams paused: the second one asks again",
        at("paused", "m2", "streams paused: a second one", ()),
        0,
        client_id="second",
    ),
    Case("streams paused: the first one hears nothing", at("paused", "m1", "streams paused: joins", (0, 1, 2)), 0),
    Case("streams paused: described", describe("paused"), 0),
    *ends("paused", "m1", "m2"),
]
STUCK = [
    *quick("stuck"),
    Case("streams stuck: joins", joins("stuck", rebalance_timeout_ms=1), 0),
    Case("streams stuck: a second one", joins("stuck", "m2"), 0, client_id="second"),
    Case("streams stuck: shall give back at once", at("stuck", "m1", "streams stuck: joins", (0, 1, 2)), 0),
    Case(
        "streams stuck: is taken out",
        at("stuck", "m1", "streams stuck: joins", (0, 1, 2)),
        0,
        until=lambda answer: bool(answer.error_code),
    ),
    Case(
        "streams stuck: the second one gets all",
        at("stuck", "m2", "streams stuck: a second one", ()),
        0,
        client_id="second",
    ),
    Case("streams stuck: described", describe("stuck"), 0),
    *ends("stuck", "m2"),
]
LOG = topology(part(sources=("streams-living",), state_changelog_topics=[internal("streams-living-log")]))
MORE = CreatePartitionsRequest(
    topics=[CreatePartitionsTopic(name="streams-living", count=3, assignments=None)],
    timeout_ms=30_000,
    validate_only=False,
)
GONE = DeleteTopicsRequest(topics=[DeleteTopicState(name="streams-living", topic_id=Uuid.ZERO)], timeout_ms=30_000)
LIVING = [
    Case("streams living: its topics", create(topic("streams-living", 2), topic("streams-living-log", 2)), 7),
    *quick("living"),
    Case("streams living: joins", joins("living", topology=LOG), 0),
    Case("streams living: has all", at("living", "m1", "streams living: joins", (0, 1)), 0),
    Case("streams living: its source grows", MORE, 3),
    Case(
        "streams living: its changelog is too small",
        at("living", "m1", "streams living: joins", (0, 1)),
        0,
        until=lambda answer: bool(answer.status),
    ),
    Case("streams living: described with a changelog that is too small", describe("living"), 0),
    Case("streams living: its source is deleted", GONE, 6),
    Case(
        "streams living: its source is missing",
        at("living", "m1", "streams living: joins", (0, 1)),
        0,
        until=lambda answer: [one.status_code for one in answer.status] == [1],
    ),
    Case("streams living: has given back", at("living", "m1", "streams living: joins", ()), 0),
    Case("streams living: described without its source", describe("living"), 0),
    *ends("living", "m1"),
]

# -- other kinds ------------------------------------------------------------------------------------------

MIXED = [
    Case("streams: joins a classic group with a member", joins("classic"), 0),
    Case("streams: goes on in a classic group", beat("classic", epoch=1), 0),
    Case("streams: leaves a classic group", beat("classic", epoch=-1), 0),
    Case("streams: joins a consumer group", joins("seats"), 0),
    Case("streams: goes on in a consumer group", beat("seats", epoch=1), 0),
    Case("streams: leaves a consumer group", beat("seats", epoch=-1), 0),
    Case("streams: describes groups of other kinds", describe("classic", "seats"), 0),
    Case("streams mixed: a streams group", joins("mixed-up"), 0),
    Case("describe: a streams group as a consumer group", consumer_describe("mixed-up"), 1),
    Case("share describe: a streams group", share_describe("mixed-up"), 1),
    Case("share beat: joins a streams group", share_joins("mixed-up", subscribed_topic_names=["streamed"]), 1),
    Case("share offsets: of a streams group", offsets("mixed-up"), 1),
    Case("share alter: a streams group", alter("mixed-up", {0: 1}, "streamed"), 0),
    Case("share forget: a streams group", share_forget("mixed-up", "streamed"), 0),
    Case("streams: joins without a process", joins("nameless", process_id=None), 0),
    *ends("mixed-up", "m1"),
    *ends("nameless", "m1"),
]

CASES = [*TOPOLOGIES, *MOVING, *PAUSED, *STUCK, *LIVING, *MIXED]

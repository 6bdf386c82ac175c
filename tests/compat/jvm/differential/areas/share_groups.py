"""Share groups (KIP-932): members, offsets, sessions, acquisitions and acknowledgements."""

from __future__ import annotations

from typing import Any

from jvm.differential.areas.fetch import fetch as plain_fetch
from jvm.differential.areas.fetch import row as plain_row
from jvm.differential.areas.groups import heartbeat as classic_heartbeat
from jvm.differential.areas.groups import join
from jvm.differential.areas.produce import produce
from jvm.differential.areas.topics import NOBODY, create, topic
from jvm.differential.batches import batch
from jvm.differential.case import Case, Request, cases

from kavka.protocol.schemas import alter_share_group_offsets as altering
from kavka.protocol.schemas import delete_share_group_offsets as forgetting
from kavka.protocol.schemas import describe_share_group_offsets as positions
from kavka.protocol.schemas import share_acknowledge as acknowledging
from kavka.protocol.schemas import share_fetch as fetching
from kavka.protocol.schemas.delete_groups import DeleteGroupsRequest
from kavka.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kavka.protocol.schemas.list_groups import ListGroupsRequest
from kavka.protocol.schemas.share_group_describe import ShareGroupDescribeRequest
from kavka.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest

TOPIC, GROUP = "shared", "queue"
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
Said = dict[int, list[tuple[int, int, list[int]]]]


def beat(group: str = GROUP, member: str = "m1", epoch: int = 0, **rest: Any) -> ShareGroupHeartbeatRequest:
    """A heartbeat with only what is said."""
    return ShareGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **rest)


def joins(group: str = GROUP, member: str = "m1", **rest: Any) -> ShareGroupHeartbeatRequest:
    """A first heartbeat."""
    return beat(group, member, 0, **{"subscribed_topic_names": [TOPIC], **rest})


def describe(*groups: str, operations: bool = False) -> ShareGroupDescribeRequest:
    """Look at groups."""
    return ShareGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=operations)


def offsets(group: str = GROUP, *topics: tuple[str, list[int]]) -> positions.DescribeShareGroupOffsetsRequest:
    """Where a group stands: in topics, or in all that it has a state of."""
    named = [
        positions.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes) for name, indexes in topics
    ]
    asked = positions.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=named or None)
    return positions.DescribeShareGroupOffsetsRequest(groups=[asked])


def alter(group: str, starts: dict[int, int], name: str = TOPIC) -> altering.AlterShareGroupOffsetsRequest:
    """Begin elsewhere."""
    rows = [
        altering.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=start)
        for index, start in starts.items()
    ]
    asked = altering.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=rows)
    return altering.AlterShareGroupOffsetsRequest(group_id=group, topics=[asked])


def forget(group: str, *names: str) -> forgetting.DeleteShareGroupOffsetsRequest:
    """Forget where a group is."""
    topics = [forgetting.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
    return forgetting.DeleteShareGroupOffsetsRequest(group_id=group, topics=topics)


def fetch(epoch: int, said: Said | None = None, member: str = "m1", **rest: Any) -> Request:
    """Acknowledge and acquire; partitions that are only named have nothing to say."""
    given: dict[str, Any] = {
        "group_id": GROUP,
        "max_wait_ms": 300,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "max_records": 500,
        "batch_size": 500,
        "forgotten_topics_data": [],
        **rest,
    }
    where = given.pop("where", TOPIC)

    def request(seen: Any) -> fetching.ShareFetchRequest:
        topic_id = seen.topic_id(where) if isinstance(where, str) else where
        rows = [
            fetching.FetchPartition(
                partition_index=index,
                acknowledgement_batches=[
                    fetching.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                    for first, last, types in batches
                ],
            )
            for index, batches in (said or {}).items()
        ]
        topics = [fetching.FetchTopic(topic_id=topic_id, partitions=rows)] if rows else []
        return fetching.ShareFetchRequest(member_id=member, share_session_epoch=epoch, topics=topics, **given)

    return request


def acknowledge(epoch: int, said: Said, member: str = "m1", where: Any = TOPIC, **rest: Any) -> Request:
    """Say what has become of records."""

    def request(seen: Any) -> acknowledging.ShareAcknowledgeRequest:
        topic_id = seen.topic_id(where) if isinstance(where, str) else where
        rows = [
            acknowledging.AcknowledgePartition(
                partition_index=index,
                acknowledgement_batches=[
                    acknowledging.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                    for first, last, types in batches
                ],
            )
            for index, batches in said.items()
        ]
        topics = [acknowledging.AcknowledgeTopic(topic_id=topic_id, partitions=rows)] if rows else []
        given = {"group_id": GROUP, **rest}
        return acknowledging.ShareAcknowledgeRequest(
            member_id=member, share_session_epoch=epoch, topics=topics, **given
        )

    return request


def configure(group: str, **settings: str) -> IncrementalAlterConfigsRequest:
    """Set a group's settings."""
    rows = [
        AlterableConfig(name=name.replace("_", "."), config_operation=0, value=text) for name, text in settings.items()
    ]
    resource = AlterConfigsResource(resource_type=32, resource_name=group, configs=rows)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def pause(name: str) -> Case:
    """Time passes: a fetch that finds nothing waits."""
    return Case(
        f"share: time passes {name}", plain_fetch(plain_row(1, 0), topic=TOPIC, max_wait_ms=2500, min_bytes=1), 12
    )


NOT_THERE = [
    Case("share beat: no group id", joins(""), 1),
    Case("share beat: no member id", joins(member=""), 1),
    Case("share beat: too long a member id", joins(member="x" * 37), 1),
    Case("share beat: an empty rack", joins(rack_id=""), 1),
    Case("share beat: joins without topics", beat(), 1),
    Case("share beat: joins with no topics", joins(subscribed_topic_names=[]), 1),
    Case("share beat: an epoch that is none", beat(epoch=-2), 1),
    Case("share beat: an unknown group", beat("nobody", epoch=1), 1),
    Case("share beat: leaves an unknown group", beat("nobody", epoch=-1), 1),
    Case("share beat: a classic group", joins("classic"), 1),
    Case("share describe: groups that are none", describe("", "nobody", "classic", operations=True), 1),
    *cases(0, 1, name="share offsets: of nobody", request=offsets("nobody")),
    Case("share offsets: of a topic that is not there", offsets("nobody", ("nowhere", [0, 1])), 1),
    Case("share offsets: of a topic without a state", offsets("nobody", (TOPIC, [0, 1])), 1),
    Case("share alter: no group id", alter("", {0: 1}), 0),
    Case("share alter: a classic group", alter("classic", {0: 1}), 0),
    Case("share forget: no group id", forget("", TOPIC), 0),
    Case("share forget: an unknown group", forget("nobody", TOPIC), 0),
    Case("share forget: a classic group", forget("classic", TOPIC), 0),
]

SETTINGS = [
    Case("share configs: begin at the start", configure(GROUP, share_auto_offset_reset="earliest"), 1),
    Case("share configs: begin somewhere", configure(GROUP, share_auto_offset_reset="somewhere"), 1),
    Case("share configs: too short a lock", configure(GROUP, share_record_lock_duration_ms="10"), 1),
    Case("share configs: too many deliveries", configure(GROUP, share_delivery_count_limit="11"), 1),
    Case("share configs: unknown", configure(GROUP, share_colour="red"), 1),
]

MEMBERS = [
    Case("share beat: joins", joins(), 1),
    pause("for the states"),
    Case("share beat: hears of its partitions", beat(epoch=2), 1),
    Case("share beat: nothing new", beat(epoch=3), 1),
    Case("share beat: the epoch before", beat(epoch=2), 1),
    Case("share beat: an epoch that was before", beat(epoch=1), 1),
    Case("share beat: an epoch to come", beat(epoch=9), 1),
    Case("share beat: an unknown member", beat(member="m9", epoch=1), 1),
    Case("share beat: says its topics again", beat(epoch=3, subscribed_topic_names=[TOPIC]), 1),
    Case("share describe: a group", describe(GROUP, operations=True), 1),
    Case("share list: by type", ListGroupsRequest(types_filter=["share"]), 5),
    Case("share list: stable", ListGroupsRequest(types_filter=["Share"], states_filter=["stable"]), 5),
    Case("share alter: a group with members", alter(GROUP, {0: 1}), 0),
    Case("share forget: a group with members", forget(GROUP, TOPIC), 0),
    Case("share delete: a group with members", DeleteGroupsRequest(groups_names=[GROUP]), 2),
    Case("share: joins as a classic member", join(GROUP), 9),
    Case("share: a classic heartbeat", classic_heartbeat(GROUP, "m1", 1), 4),
    *cases(0, 1, name="share offsets: before anything was read", request=offsets()),
]

SESSIONS = [
    *cases(1, 2, name="share fetch: no group id", request=fetch(0, {0: []}, group_id=None)),
    Case("share fetch: no member id", fetch(0, {0: []}, member=""), 2),
    Case("share fetch: too long a member id", fetch(0, {0: []}, member="x" * 37), 2),
    Case("share fetch: renews and reads", fetch(0, {0: []}, is_renew_ack=True), 2),
    Case("share fetch: no session", fetch(1), 2),
    Case("share fetch: ends no session", fetch(-1), 2),
    Case("share fetch: opens with acknowledgements", fetch(0, {0: [(0, 0, [ACCEPT])]}), 2),
    Case("share ack: opens a session", acknowledge(0, {0: [(0, 0, [ACCEPT])]}), 2),
    Case("share ack: no session", acknowledge(1, {0: [(0, 0, [ACCEPT])]}), 2),
    Case("share ack: no group id", acknowledge(1, {}, group_id=None), 2),
    Case("share ack: no member id", acknowledge(1, {}, member=""), 2),
    Case("share fetch: topics that are not there", fetch(0, {0: []}, where=NOBODY), 2),
    Case("share fetch: partitions that are not there", fetch(0, {9: []}), 2),
]

RECORDS = [
    Case("share: six records", produce(batch(b"0", b"1", b"2"), topic=TOPIC), 7),
    Case("share: three more", produce(batch(b"3", b"4", b"5"), topic=TOPIC), 7),
    Case("share fetch: opens and waits for its states", fetch(0, {0: [], 1: []}, max_records=0), 2),
    Case("share fetch: a wrong epoch", fetch(9), 2),
    Case("share fetch: one batch", fetch(1, max_records=1, max_wait_ms=2000), 2),
    Case("share fetch: one record", fetch(2, max_records=1, share_acquire_mode=1), 2),
    Case("share fetch: the rest", fetch(3), 2),
    Case("share fetch: nothing is left", fetch(4), 2),
    Case("share ack: an epoch that was", acknowledge(4, {0: [(0, 0, [ACCEPT])]}), 2),
    Case("share ack: a range that is none", acknowledge(5, {0: [(2, 1, [ACCEPT])]}), 2),
    Case("share ack: out of order", acknowledge(6, {0: [(2, 2, [ACCEPT]), (0, 0, [ACCEPT])]}), 2),
    Case("share ack: no type", acknowledge(7, {0: [(0, 0, [])]}), 2),
    Case("share ack: too few types", acknowledge(8, {0: [(0, 2, [ACCEPT, ACCEPT])]}), 2),
    Case("share ack: an unknown type", acknowledge(9, {0: [(0, 0, [5])]}), 2),
    Case("share ack: renews without saying so", acknowledge(10, {0: [(0, 0, [RENEW])]}), 2),
    Case("share ack: renews before that was known", acknowledge(11, {0: [(0, 0, [RENEW])]}), 1),
    Case("share ack: records to come", acknowledge(12, {0: [(0, 99, [ACCEPT])]}), 2),
    Case("share ack: a partition that has none", acknowledge(13, {1: [(0, 0, [ACCEPT])]}), 2),
    Case("share ack: a partition that is not there", acknowledge(14, {9: [(0, 0, [ACCEPT])]}), 2),
    Case("share ack: a topic that is not there", acknowledge(15, {0: [(0, 0, [ACCEPT])]}, where=NOBODY), 2),
    Case("share ack: renews", acknowledge(16, {0: [(0, 0, [RENEW])]}, is_renew_ack=True), 2),
    Case("share ack: all sorts", acknowledge(17, {0: [(0, 2, [ACCEPT, RELEASE, REJECT])]}), 2),
    Case("share ack: twice", acknowledge(18, {0: [(1, 1, [ACCEPT])]}), 2),
    Case("share ack: accepted before the start", acknowledge(19, {0: [(0, 0, [ACCEPT])]}), 1),
    Case("share fetch: what was released", fetch(20), 2),
    Case("share fetch: says what it has", fetch(21, {0: [(1, 1, [ACCEPT]), (3, 3, [RELEASE])]}), 2),
    Case("share fetch: says something wrong", fetch(22, {0: [(1, 99, [ACCEPT])]}, max_wait_ms=0), 2),
    Case(
        "share fetch: renews",
        fetch(23, {0: [(3, 3, [RENEW])]}, is_renew_ack=True, max_bytes=0, min_bytes=0, max_records=0, max_wait_ms=0),
        2,
    ),
    *cases(0, 1, name="share offsets: amid", request=offsets()),
    Case("share offsets: of some partitions", offsets(GROUP, (TOPIC, [0, 1]), ("nowhere", [0])), 1),
    Case("share fetch: opens anew", fetch(0, {0: []}, max_wait_ms=0), 2),
    Case("share ack: what it held before", acknowledge(1, {0: [(4, 4, [ACCEPT])]}), 2),
    Case("share ack: ends the session", acknowledge(-1, {0: [(5, 5, [ACCEPT])]}), 2),
    Case("share ack: ends it again", acknowledge(-1, {}), 2),
    Case("share fetch: another member gets the rest", fetch(0, {0: []}, member="m2", max_wait_ms=1000), 2),
    Case("share fetch: ends, with acknowledgements", fetch(-1, {0: [(3, 3, [ACCEPT])]}, member="m2"), 2),
]

ENDS = [
    Case("share beat: leaves", beat(epoch=-1), 1),
    Case("share beat: leaves again", beat(epoch=-1), 1),
    Case("share describe: an empty group", describe(GROUP), 1),
    Case("share alter: moves", alter(GROUP, {0: 2, 9: 0}), 0),
    Case("share alter: a topic that is not there", alter(GROUP, {0: 2}, "nowhere"), 0),
    Case("share alter: a new group", alter("queue2", {0: 1}), 0),
    Case("share describe: a group that was made by altering", describe("queue2"), 1),
    *cases(0, 1, name="share offsets: after moving", request=offsets()),
    Case("share forget: topics", forget(GROUP, TOPIC, "nowhere"), 0),
    Case("share forget: again", forget(GROUP, TOPIC), 0),
    Case("share offsets: after forgetting", offsets(), 1),
    Case("share delete: groups", DeleteGroupsRequest(groups_names=[GROUP, "queue2", "nobody"]), 2),
    Case("share describe: a deleted group", describe(GROUP), 1),
]

CASES = [
    Case("share: a topic", create(topic(TOPIC, 2)), 7),
    *NOT_THERE,
    *SETTINGS,
    *MEMBERS,
    *SESSIONS,
    *RECORDS,
    *ENDS,
]

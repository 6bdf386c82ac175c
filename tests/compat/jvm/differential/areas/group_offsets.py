"""OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from jvm.differential.areas.groups import MEMBER
from jvm.differential.case import Case, Seen, cases

from kavka.model.types import Uuid
from kavka.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kavka.protocol.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kavka.protocol.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

NOBODYS = Uuid(bytes(15) + b"\x77")


def commit(
    group: str,
    member: str = "",
    generation: int = -1,
    *,
    topic: str | Uuid = "grouped",
    partitions: tuple[int, ...] = (0,),
    metadata: str | None = "words",
    **rest: object,
) -> OffsetCommitRequest:
    """Commit offset 5 + partition."""
    rows = [
        OffsetCommitRequestPartition(
            partition_index=each, committed_offset=5 + each, committed_leader_epoch=0, committed_metadata=metadata
        )
        for each in partitions
    ]
    named = OffsetCommitRequestTopic(
        name=topic if isinstance(topic, str) and not isinstance(topic, Uuid) else "",
        topic_id=topic if isinstance(topic, Uuid) else Uuid.ZERO,
        partitions=rows,
    )
    return OffsetCommitRequest(
        group_id=group, member_id=member, generation_id_or_member_epoch=generation, topics=[named], **rest
    )


def fetch_one(group: str, *topics: str, everything: bool = False) -> OffsetFetchRequest:
    """Fetch before version 8: partitions 0, 1 and 9 of topics."""
    rows = [OffsetFetchRequestTopic(name=name, partition_indexes=[0, 1, 9]) for name in topics]
    return OffsetFetchRequest(group_id=group, topics=None if everything else rows)


def fetch(
    *groups: str, topic: str | Uuid | None = "grouped", stable: bool = False, **rest: object
) -> OffsetFetchRequest:
    """Fetch from version 8 on."""
    rows = None
    if topic is not None:
        by_id = isinstance(topic, Uuid)
        row = OffsetFetchRequestTopics(
            name="" if by_id else str(topic), topic_id=topic if by_id else Uuid.ZERO, partition_indexes=[0, 1, 9]
        )
        rows = [row]
    asked = [OffsetFetchRequestGroup(group_id=group, topics=rows, **rest) for group in groups]
    return OffsetFetchRequest(groups=asked, require_stable=stable)


def grouped(seen: Seen) -> Uuid:
    """The id of the topic."""
    return seen.topic_id("grouped")


def forget(group: str, topic: str = "grouped", *partitions: int) -> OffsetDeleteRequest:
    """Delete offsets."""
    rows = [OffsetDeleteRequestPartition(partition_index=each) for each in partitions or (0,)]
    return OffsetDeleteRequest(group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=rows)])


COMMIT = [
    *[Case(f"commit: to a group of nobody v{version}", commit("simple"), version) for version in range(2, 10)],
    Case("commit: by topic id", lambda seen: commit("simple", topic=grouped(seen), partitions=(0, 1)), 10),
    Case("commit: to a group without a name", commit(""), 9),
    Case("commit: an unknown topic id", commit("simple", topic=NOBODYS), 10),
    *cases(2, 9, name="commit: an unknown topic", request=commit("simple", topic="nowhere")),
    *cases(2, 9, name="commit: an unknown partition", request=commit("simple", partitions=(2, 9))),
    *cases(2, 9, name="commit: too many words", request=commit("simple", metadata="w" * 5000)),
    Case("commit: as many words as may be", commit("simple", metadata="w" * 4096), 9),
    Case("commit: no words", commit("simple", metadata=None, partitions=(1,)), 9),
    Case("commit: nothing", OffsetCommitRequest(group_id="simple", member_id="", topics=[]), 9),
    *cases(2, 8, 9, name="commit: as a member of an unknown group", request=commit("nobody", "x", 1)),
    *cases(2, 9, name="commit: as an unknown member", request=commit("classic", "x", 2)),
    *cases(2, 9, name="commit: as nobody to a group with members", request=commit("classic")),
    Case("commit: as an unknown instance", commit("classic", "x", 2, group_instance_id="i"), 9),
    Case("commit: in another generation", lambda seen: commit("classic", MEMBER(seen), 1), 9),
    *[
        Case(f"commit: as a member v{version}", lambda seen: commit("classic", MEMBER(seen), 2), version)
        for version in range(2, 10)
    ],
    Case("commit: as a member by topic id", lambda seen: commit("classic", MEMBER(seen), 2, topic=grouped(seen)), 10),
    Case("commit: with a time to live", commit("simple", partitions=(2,), retention_time_ms=100_000), 4),
]

FETCH = [
    *cases(*range(1, 8), name="fetch offsets: a group", request=fetch_one("simple", "grouped", "nowhere")),
    *cases(2, 5, 7, name="fetch offsets: everything", request=fetch_one("simple", everything=True)),
    *cases(1, 7, name="fetch offsets: no topics", request=fetch_one("simple")),
    *cases(1, 2, 7, name="fetch offsets: an unknown group", request=fetch_one("nobody", "grouped")),
    *cases(2, 7, name="fetch offsets: everything of an unknown group", request=fetch_one("nobody", everything=True)),
    *cases(8, 9, name="fetch offsets: groups", request=fetch("simple", "classic", "nobody")),
    *cases(8, 9, name="fetch offsets: everything of groups", request=fetch("simple", "nobody", topic=None)),
    Case("fetch offsets: stable ones", fetch("simple", stable=True), 9),
    Case("fetch offsets: by topic id", lambda seen: fetch("simple", topic=grouped(seen)), 10),
    Case("fetch offsets: by an unknown topic id", fetch("simple", topic=NOBODYS), 10),
    Case("fetch offsets: everything, by topic id", fetch("simple", topic=None), 10),
    Case("fetch offsets: no group", fetch(), 9),
    Case("fetch offsets: as a member of a classic group", fetch("classic", member_id="x", member_epoch=2), 9),
]

DELETE = [
    Case("delete offsets: no group id", forget(""), 0),
    Case("delete offsets: an unknown group", forget("nobody"), 0),
    Case("delete offsets: a topic that is read", forget("classic", "grouped", 0, 1), 0),
    Case("delete offsets: a topic that is not read", forget("classic", "ungrouped"), 0),
    Case("delete offsets: an unknown topic", forget("simple", "nowhere"), 0),
    Case("delete offsets: known and unknown partitions", forget("simple", "grouped", 0, 9), 0),
    Case("fetch offsets: after some were deleted", fetch("simple", topic=None), 9),
]

"""Committed offsets of a group: writing and reading them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

from kavka.client.group_link import GroupLink
from kavka.client.pool import Pool
from kavka.client.view import error_for
from kavka.model.errors import StaleMemberEpoch, UnstableOffsetCommit
from kavka.model.types import TopicPartition
from kavka.protocol.schema import declared
from kavka.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kavka.protocol.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

BY_NAME_UNTIL: Final = 9
"""Later versions name topics by their ids."""
STALE_TRIES: Final = 10
UNSTABLE_TRIES: Final = 300
WAIT_S: Final = 0.1

Identity = Callable[[], tuple[str, int]]
"""Who commits: a member id, and its member epoch or generation at the moment."""


class CommittedOffset(NamedTuple):
    """The committed offset of a group in a partition, and its metadata."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def nobody() -> tuple[str, int]:
    """Who commits for a group without being in it."""
    return "", -1


async def commit_offsets(
    link: GroupLink,
    offsets: Mapping[TopicPartition, int],
    identity: Identity = nobody,
    instance_id: str | None = None,
) -> None:
    """Commit offsets; raises the first error."""
    by_topic: defaultdict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
    for tp, offset in offsets.items():
        by_topic[tp.topic].append(
            OffsetCommitRequestPartition(partition_index=tp.partition, committed_offset=offset, committed_metadata="")
        )
    topics = [OffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in by_topic.items()]
    for attempt in count(1):
        member_id, epoch = identity()
        request = OffsetCommitRequest(
            group_id=link.group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=topics,
        )
        answer = await link.ask(request, OffsetCommitResponse, code=worst, at_most=BY_NAME_UNTIL)
        code = worst(answer)
        if code == StaleMemberEpoch.code and attempt < STALE_TRIES and epoch > 0:
            # The next heartbeat brings the member's epoch.
            await asyncio.sleep(WAIT_S)
            continue
        if code:
            raise error_for(code)
        return


def worst(answer: OffsetCommitResponse) -> int:
    """The first error of a commit: what concerns the whole request is said of every partition."""
    return next((row.error_code for topic in answer.topics for row in topic.partitions if row.error_code), 0)


async def fetch_offsets(
    link: GroupLink, partitions: Sequence[TopicPartition] | None = None
) -> dict[TopicPartition, CommittedOffset]:
    """The committed offsets of some partitions, or of all; those without one are left out."""
    topics: list[OffsetFetchRequestTopics] | None = None
    if partitions is not None:
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
            for name, indexes in _indexes(partitions).items()
        ]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=link.group_id, topics=topics)], require_stable=True
    )
    for attempt in count(1):
        answer = await link.ask(
            request, OffsetFetchResponse, code=lambda response: response.groups[0].error_code, at_most=BY_NAME_UNTIL
        )
        group = answer.groups[0]
        code = group.error_code or max(
            (row.error_code for topic in group.topics for row in topic.partitions), default=0
        )
        if code == UnstableOffsetCommit.code and attempt < UNSTABLE_TRIES:
            await asyncio.sleep(WAIT_S)  # a transaction is about to end
            continue
        if code:
            raise error_for(code)
        return {
            TopicPartition(topic.name, row.partition_index): CommittedOffset(
                row.committed_offset, row.committed_leader_epoch, row.metadata or ""
            )
            for topic in group.topics
            for row in topic.partitions
            if row.committed_offset >= 0
        }
    raise AssertionError("unreachable")


async def offsets_of_many(
    pool: Pool, coordinator: int, group_ids: Sequence[str]
) -> dict[str, dict[TopicPartition, int]]:
    """How far groups of one coordinator have read, as far as is settled now; groups that it does not tell are left out.

    Raises KafkaError if nobody answers.
    """
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=id_, topics=None) for id_ in group_ids])
    connection = await pool.node(coordinator)
    version = connection.version(declared(OffsetFetchRequest).key, at_most=BY_NAME_UNTIL)
    answer = await connection.request(request, OffsetFetchResponse, version=version, timeout_ms=pool.timeout_ms)
    return {
        group.group_id: {
            TopicPartition(topic.name, row.partition_index): row.committed_offset
            for topic in group.topics
            for row in topic.partitions
            if row.committed_offset >= 0 and not row.error_code
        }
        for group in answer.groups
        if not group.error_code
    }


def _indexes(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for tp in partitions:
        found.setdefault(tp.topic, []).append(tp.partition)
    return found

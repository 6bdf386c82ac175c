"""Administration of share groups: describe, list, alter and delete their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kavka.client.admin_groups import GroupDescription, assigned_member, the_group
from kavka.client.group_link import GroupLink
from kavka.client.pool import Pool
from kavka.client.view import error_for, raise_for
from kavka.model.errors import KafkaError
from kavka.model.share import ACKNOWLEDGED, ARCHIVED, ARCHIVING, AVAILABLE, SharePartitionKey
from kavka.model.types import TopicPartition
from kavka.protocol.schemas import alter_share_group_offsets as altering
from kavka.protocol.schemas import delete_share_group_offsets as forgetting
from kavka.protocol.schemas import describe_share_group_offsets as positions
from kavka.protocol.schemas import read_share_group_state as reading
from kavka.protocol.schemas.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse

SHARE: Final = 2
"""What FindCoordinator calls the keys of share partitions."""
ONLY_LOOKING: Final = -1
"""The leader epoch in a request of somebody who is no leader."""


class ShareGroupOffset(NamedTuple):
    """A share group's start offset in a partition; what is not known is None."""

    start_offset: int | None
    lag: int | None


class SharePartitionState(NamedTuple):
    """The states of the records after a share partition's start offset, as the share coordinator has them."""

    start_offset: int
    accepted: int
    archived: int
    delivered_before: int
    """Available again: they were released, or their acquisition lock expired."""
    done: tuple[tuple[int, int], ...]
    """First and last offsets of the records that nobody gets any more: accepted, archived or about to be."""

    def is_done(self, offset: int) -> bool:
        """Whether nobody gets a record any more."""
        return offset < self.start_offset or any(first <= offset <= last for first, last in self.done)


class ShareGroupsAdmin:
    """The part of the admin client that deals with share groups."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def describe_share_group(self, id_: str) -> GroupDescription:
        """A share group with its members; raises GroupIdNotFound."""
        link = GroupLink(self._pool, id_)
        request = ShareGroupDescribeRequest(group_ids=[id_], include_authorized_operations=False)
        group = await the_group(link, request, ShareGroupDescribeResponse)
        return GroupDescription(
            id=group.group_id,
            type="share",
            state=group.group_state,
            coordinator=await link.node(),
            assignor=group.assignor_name,
            epoch=group.group_epoch,
            members=tuple(assigned_member(member, None) for member in group.members),
        )

    async def share_group_offsets(self, id_: str) -> dict[TopicPartition, ShareGroupOffset]:
        """The start offsets of a share group in all partitions that it has a state of."""
        asked = positions.DescribeShareGroupOffsetsRequestGroup(group_id=id_, topics=None)
        request = positions.DescribeShareGroupOffsetsRequest(groups=[asked])
        group = await the_group(GroupLink(self._pool, id_), request, positions.DescribeShareGroupOffsetsResponse)
        found: dict[TopicPartition, ShareGroupOffset] = {}
        for topic in group.topics:
            for row in topic.partitions:
                raise_for(row.error_code, row.error_message)
                start, lag = (None if number < 0 else number for number in (row.start_offset, row.lag))
                found[TopicPartition(topic.topic_name, row.partition_index)] = ShareGroupOffset(start, lag)
        return found

    async def alter_share_group_offsets(self, id_: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Alter the start offsets of an empty share group; raises the first error."""
        topics: dict[str, list[altering.AlterShareGroupOffsetsRequestPartition]] = {}
        for tp, offset in offsets.items():
            row = altering.AlterShareGroupOffsetsRequestPartition(partition_index=tp.partition, start_offset=offset)
            topics.setdefault(tp.topic, []).append(row)
        request = altering.AlterShareGroupOffsetsRequest(
            group_id=id_,
            topics=[
                altering.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=rows)
                for name, rows in topics.items()
            ],
        )
        answer = await GroupLink(self._pool, id_).ask(request, altering.AlterShareGroupOffsetsResponse)
        raise_for(answer.error_code, answer.error_message)
        for topic in answer.responses:
            for found in topic.partitions:
                raise_for(found.error_code, found.error_message)

    async def delete_share_group_offsets(self, id_: str, topics: Iterable[str]) -> None:
        """Delete the offsets of an empty share group in topics; raises the first error."""
        rows = [forgetting.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
        request = forgetting.DeleteShareGroupOffsetsRequest(group_id=id_, topics=rows)
        answer = await GroupLink(self._pool, id_).ask(request, forgetting.DeleteShareGroupOffsetsResponse)
        raise_for(answer.error_code, answer.error_message)
        for topic in answer.responses:
            raise_for(topic.error_code, topic.error_message)

    async def share_states(
        self, id_: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, SharePartitionState | KafkaError]:
        """The share-partition states of the share coordinators; takes the right ClusterAction."""
        wanted = list(partitions)
        view = await self._pool.refresh({tp.topic for tp in wanted})
        found: dict[TopicPartition, SharePartitionState | KafkaError] = {}
        for tp in wanted:
            key = SharePartitionKey(id_, view.topics[tp.topic].id, tp.partition)
            row = reading.PartitionData(partition=tp.partition, leader_epoch=ONLY_LOOKING)
            topic = reading.ReadStateData(topic_id=key.topic_id, partitions=[row])
            request = reading.ReadShareGroupStateRequest(group_id=id_, topics=[topic])
            link = GroupLink(self._pool, str(key), key_type=SHARE)
            try:
                answer = await link.ask(request, reading.ReadShareGroupStateResponse, code=_first_code)
                found[tp] = _state(answer.results[0].partitions[0])
            except KafkaError as error:
                found[tp] = error
        return found


def _first_code(answer: Any) -> int:
    code: int = answer.results[0].partitions[0].error_code
    return code


def _state(row: reading.PartitionResult) -> SharePartitionState:
    if row.error_code:
        raise error_for(row.error_code, row.error_message)
    counts = {ACKNOWLEDGED: 0, ARCHIVING: 0, ARCHIVED: 0, AVAILABLE: 0}
    done: list[tuple[int, int]] = []
    for batch in row.state_batches:
        if batch.delivery_state in counts:
            counts[batch.delivery_state] += batch.last_offset - batch.first_offset + 1
        if batch.delivery_state in (ACKNOWLEDGED, ARCHIVING, ARCHIVED):
            done.append((batch.first_offset, batch.last_offset))
    archived = counts[ARCHIVING] + counts[ARCHIVED]
    return SharePartitionState(row.start_offset, counts[ACKNOWLEDGED], archived, counts[AVAILABLE], tuple(done))

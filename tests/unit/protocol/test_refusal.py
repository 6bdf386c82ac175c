"""A refused request: whatever the API and its version, the error is in the answer, and the answer can be sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from kavka.model.errors import ClusterAuthorizationFailed, GroupAuthorizationFailed
from kavka.protocol.compiler import decode, encode
from kavka.protocol.refusal import ERROR_CODES, refusal
from kavka.protocol.registry import API
from kavka.protocol.schema import fields_of
from kavka.protocol.schemas.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kavka.protocol.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

NOWHERE = {("DescribeLogDirs", 1), ("DescribeLogDirs", 2)}
"""Kafka has no place for an error there either."""


def codes(message: Any) -> Iterator[int]:
    """Every error code of a message, at any depth."""
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if field.name in ERROR_CODES:
            yield value
        for item in value if isinstance(value, list) else ():
            if hasattr(item, "__fields__"):
                yield from codes(item)


@pytest.mark.parametrize("key", sorted(API))
def test_every_api_has_room_for_an_error(key: int, samples: Callable[[type, int], Iterator[Any]]) -> None:
    api = API[key]
    for version in range(api.min_version, api.max_version + 1):
        for request in islice(samples(api.request(), version), 2, 4):  # those whose lists are not empty
            refused = refusal(request, version, ClusterAuthorizationFailed())
            again = decode(api.response(), bytes(encode(refused, version)), version)
            told = {code for code in codes(again) if code}
            expected = set() if (api.name, version) in NOWHERE else {ClusterAuthorizationFailed.code}
            assert told == expected, (api.name, version)


def test_rows_name_what_was_asked_for() -> None:
    asked = OffsetFetchRequest(
        groups=[],
        topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[4, 7])],
        group_id="g",
    )
    (topic,) = refusal(asked, 1, GroupAuthorizationFailed("no")).topics
    assert topic.name == "t"
    assert [
        (partition.partition_index, partition.committed_offset, partition.error_code) for partition in topic.partitions
    ] == [
        (4, -1, 30),
        (7, -1, 30),
    ]


def test_the_error_stands_as_far_up_as_it_has_a_place() -> None:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[4])]
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    (group,) = refusal(asked, 8, GroupAuthorizationFailed()).groups
    assert (group.group_id, group.error_code, group.topics) == ("g", 30, [])


def test_lists_within_lists_are_answered_as_one() -> None:
    asked = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=path.upper(), partitions=[1])])
            for path in "ab"
        ]
    )
    results = refusal(asked, 2, ClusterAuthorizationFailed()).results
    assert [(row.topic_name, row.partitions[0].partition_index) for row in results] == [("A", 1), ("B", 1)]


def test_the_message_is_told_where_there_is_room_and_something_to_say() -> None:
    request = API[69].request()(group_ids=["g"], include_authorized_operations=False)
    assert refusal(request, 1, GroupAuthorizationFailed("not yours")).groups[0].error_message == "not yours"
    assert refusal(request, 1, GroupAuthorizationFailed()).groups[0].error_message is None

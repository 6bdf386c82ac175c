"""Long lists are served in parts: the answer is the same as if they had been served as one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.broker.context import Context
from kavka.broker.handlers.marks import Parts
from kavka.broker.parts import MAX_ROWS, served_in_parts
from kavka.model.errors import InvalidRequest
from kavka.net.session import Session
from kavka.protocol.schemas.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    RequestEntryData,
)
from kavka.protocol.schemas.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kavka.protocol.schemas.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kavka.protocol.schemas.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kavka.protocol.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

CONTEXT = Context(
    api_key=9, api_version=9, client_id="c", session=Session(1, "PLAINTEXT", "127.0.0.1", 1), now_ms=0, kind="broker"
)
DEEP = Parts(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions"), 3)


async def offsets(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    """A row for each partition; a group without topics has one of its own."""
    groups = []
    for group in request.groups:
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=index, committed_offset=index * 10, metadata="", error_code=0
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in group.topics or []
        ]
        groups.append(OffsetFetchResponseGroup(group_id=group.group_id, topics=topics))
    return OffsetFetchResponse(groups=groups)


def ask(handler: Any, parts: Parts, request: Any) -> tuple[Any, list[int]]:
    """The answer, and how many items of the outermost list each part had."""
    sizes: list[int] = []

    async def counted(request: Any, context: Context) -> Any:
        sizes.append(len(getattr(request, parts.asked[0])))
        return await handler(request, context)

    return asyncio.run(served_in_parts(counted, (parts,))(request, CONTEXT)), sizes


@given(
    st.lists(
        st.tuples(st.none() | st.lists(st.tuples(st.text("abc", max_size=1), st.lists(st.integers(0, 9), max_size=7)),
                                       max_size=4, unique_by=lambda topic: topic[0])),
        max_size=5,
    )
)  # fmt: skip
def test_three_lists_deep_the_answer_is_that_of_the_whole(groups: list[tuple[Any]]) -> None:
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=f"g{number}",
                topics=None
                if topics is None
                else [OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in topics],
            )
            for number, (topics,) in enumerate(groups)
        ]
    )
    whole = asyncio.run(offsets(request, CONTEXT))
    assert ask(offsets, DEEP, request)[0] == whole


def test_no_part_is_larger_than_it_may_be() -> None:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=list(range(10)))]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    seen: list[int] = []

    async def handler(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
        seen.append(sum(len(topic.partition_indexes) for group in request.groups for topic in group.topics or ()))
        return await offsets(request, context)

    answer, _ = ask(handler, DEEP, request)
    assert seen == [3, 3, 3, 1]
    assert [row.partition_index for row in answer.groups[0].topics[0].partitions] == list(range(10))


async def describe(request: DescribeGroupsRequest, context: Context) -> DescribeGroupsResponse:
    rows = [
        DescribedGroup(error_code=0, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=[])
        for group_id in request.groups
    ]
    return DescribeGroupsResponse(groups=rows)


def test_a_name_that_is_there_again_and_again_is_looked_up_once() -> None:
    request = DescribeGroupsRequest(groups=["a"] * 1000 + ["b"])
    answer, sizes = ask(describe, Parts(("groups",), ("groups",), 10), request)
    assert [row.group_id for row in answer.groups] == ["a", "b"]
    assert sizes == [1, 1]


def test_so_is_a_resource_with_the_same_keys() -> None:
    async def configs(request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
        results = [
            DescribeConfigsResult(error_code=0, error_message="", resource_type=2, resource_name=resource.resource_name,
                                  configs=[])
            for resource in request.resources
        ]  # fmt: skip
        return DescribeConfigsResponse(results=results)

    same = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=["k"])
    other = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[same] * 50 + [other] * 50)
    answer, _ = ask(configs, Parts(("resources",), ("results",), 10, fold=True), request)
    assert len(answer.results) == 2


def test_of_what_may_be_there_once_two_come_together() -> None:
    async def create(request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
        names = [topic.name for topic in request.topics]
        rows = [
            CreatableTopicResult(name=name, error_code=42 if names.count(name) > 1 else 0, error_message=None)
            for name in dict.fromkeys(names)
        ]
        return CreateTopicsResponse(topics=rows)

    names = [f"t{number}" for number in range(15)] + ["twice"] * 30
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in names
    ]
    request = CreateTopicsRequest(topics=topics)
    answer, sizes = ask(create, Parts(("topics",), ("topics",), 4, unique=("name",)), request)
    assert {row.name: row.error_code for row in answer.topics} == {
        **{f"t{number}": 0 for number in range(15)},
        "twice": 42,
    }
    assert max(sizes) <= 4


def test_an_answer_has_an_end() -> None:
    row = DescribedGroup(error_code=0, group_id="g", group_state="", protocol_type="", protocol_data="", members=[])

    async def endless(request: DescribeGroupsRequest, context: Context) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=[row] * (MAX_ROWS // 2 + 1))

    with pytest.raises(InvalidRequest, match="rows"):
        ask(endless, Parts(("groups",), ("groups",), 1), DescribeGroupsRequest(groups=["a", "b"]))


def test_a_short_list_goes_to_the_handler_as_it_is() -> None:
    class Counted(list[str]):
        def __iter__(self) -> Any:
            raise AssertionError("a few items are counted, not looked at")

    seen: list[DescribeGroupsRequest] = []

    async def handler(request: DescribeGroupsRequest, context: Context) -> DescribeGroupsResponse:
        seen.append(request)
        return DescribeGroupsResponse(groups=[])

    request = DescribeGroupsRequest(groups=Counted(["a", "b"]))
    ask(handler, Parts(("groups",), ("groups",), 10), request)
    assert seen == [request]


def test_what_is_made_of_lists_may_be_there_once_too() -> None:
    def entry(name: str) -> RequestEntryData:
        return RequestEntryData(entity=[EntityData(entity_type="user", entity_name=name)], ops=[])

    parts: list[list[str | None]] = []

    async def handler(request: AlterClientQuotasRequest, context: Context) -> AlterClientQuotasResponse:
        parts.append([entry.entity[0].entity_name for entry in request.entries])
        return AlterClientQuotasResponse(entries=[])

    entries = [entry(name) for name in ("twice", "a", "b", "c", "twice", "twice")]
    request = AlterClientQuotasRequest(entries=entries, validate_only=False)
    ask(handler, Parts(("entries",), ("entries",), 3, unique=("entity",)), request)
    assert parts == [["twice", "twice", "a"], ["b", "c"]]

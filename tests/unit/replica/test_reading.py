"""A fetch that waits tells of all its partitions in the end, unless a session has told of them before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.model.errors import UnknownTopicOrPartition
from kavka.replica.fetching import FetchEntry, FetchSet
from kavka.replica.reading import FetchAttempt, FetchedTopics, FetchLimits
from kavka.replica.waiting import Purgatory


class Partition:
    """A partition whose records are all read."""

    def __init__(self) -> None:
        self.watchers: dict[FetchEntry, None] = {}
        self.end_watchers: dict[FetchEntry, None] | None = None
        self.records = b""

    def fetch(self, entry: FetchEntry, **limits: object) -> tuple[Any, ...]:
        return self.records, 9, 9, 0, None, None, None

    def has_more(self, entry: FetchEntry, committed: bool) -> bool:
        return False


class Replicas:
    """One topic with two partitions."""

    def __init__(self) -> None:
        self.partitions = {0: Partition(), 1: Partition()}

    def find(self, topic: str, index: int) -> Partition:
        if index not in self.partitions:
            raise UnknownTopicOrPartition(f"{topic}-{index}")
        return self.partitions[index]

    def held(self, topic: str, index: int) -> Partition | None:
        return self.partitions.get(index)

    def given(self, topic: str, index: int, size: int, *, failed: bool) -> None:
        """Nobody counts here."""

    def leader_of(self, topic: str, index: int) -> None:
        return None


def entries(*indexes: int) -> list[FetchEntry]:
    return [FetchEntry("orders", index, -1, 9, -1, -1, 1000) for index in indexes]


def fetch_and_wait(replicas: Any, scope: FetchSet, *, incremental: bool) -> FetchedTopics:
    """What a fetch answers that finds too little and waits until its time is up."""

    async def wait() -> FetchedTopics:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[FetchedTopics] = loop.create_future()
        attempt = FetchAttempt(replicas, scope, FetchLimits(100, 1000, committed=False), incremental=incremental)
        assert not attempt.look()
        attempt.park(1, Purgatory(loop), answered.set_result, lambda: False)
        return await answered

    return asyncio.run(wait())


def test_a_fetch_without_session_tells_of_partitions_that_had_nothing() -> None:
    answer = fetch_and_wait(Replicas(), FetchSet(entries(0, 1), uses_topic_ids=False), incremental=False)
    assert [(topic, [row[0] for row in rows]) for topic, rows in answer] == [("orders", [0, 1])]


def test_a_session_is_told_once_that_there_is_nothing() -> None:
    scope = FetchSet(entries(0, 1), uses_topic_ids=False)
    scope.id = 7
    replicas = Replicas()
    first = fetch_and_wait(replicas, scope, incremental=False)
    assert [row[0] for _, rows in first for row in rows] == [0, 1]
    assert fetch_and_wait(replicas, scope, incremental=True) == []


@pytest.mark.parametrize(("index", "aborted"), [(0, None), (55, ())])
def test_an_unknown_partition_has_an_empty_list_of_aborted_transactions(index: int, aborted: Any) -> None:
    attempt = FetchAttempt(
        Replicas(),  # type: ignore[arg-type]
        FetchSet(entries(index), uses_topic_ids=False),
        FetchLimits(0, 1000, committed=False),
        incremental=False,
    )
    assert attempt.look()
    ((_, (row,)),) = attempt.result()
    assert row[5] == aborted


def test_a_log_that_differs_is_told_at_once_and_is_no_error() -> None:
    replicas: Any = Replicas()
    replicas.partitions[0].fetch = lambda entry, **limits: (None, 9, 9, 0, None, (3, 4), None)
    scope = FetchSet(entries(0), uses_topic_ids=False)
    attempt = FetchAttempt(replicas, scope, FetchLimits(100, 1000, committed=False), incremental=False)
    assert attempt.look()
    assert not attempt.failed
    ((_, (row,)),) = attempt.result()
    assert row[8] == (3, 4)
    failing = FetchAttempt(
        replicas,
        FetchSet(entries(55), uses_topic_ids=False),
        FetchLimits(100, 1000, committed=False),
        incremental=False,
    )
    assert failing.look()
    assert failing.failed

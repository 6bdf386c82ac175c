"""Topics that are created beside an answer: once at a time, and what failed is remembered for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from kavka.controller.topics import CreatedTopic, NewTopic
from kavka.model.clock import ManualClock
from kavka.model.errors import InvalidReplicationFactor, KafkaError, RequestTimedOut
from kavka.model.types import Uuid
from kavka.quorum import requested_topics
from kavka.quorum.requested_topics import RequestedTopics


class Creation:
    """Creates topics when it is told to go on."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.go_on = asyncio.Event()
        self.wrong: dict[str, KafkaError] = {}
        self.broken: KafkaError | None = None

    async def create(self, topics: Sequence[NewTopic]) -> Mapping[str, CreatedTopic | KafkaError]:
        self.asked.append([topic.name for topic in topics])
        await self.go_on.wait()
        if self.broken is not None:
            raise self.broken
        return {topic.name: self.wrong.get(topic.name) or CreatedTopic(Uuid(b"t" * 16), 1, 1) for topic in topics}


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_topic_is_created_once_however_often_it_is_asked_for() -> None:
    async def scenario() -> None:
        creation = Creation()
        requested = RequestedTopics(creation, ManualClock())
        running = asyncio.ensure_future(requested.run())
        requested.request([NewTopic("a"), NewTopic("b")], 100)
        await turns()
        requested.request([NewTopic("b"), NewTopic("c")], 100)
        await turns()
        assert creation.asked == [["a", "b"], ["c"]]
        creation.go_on.set()
        await turns()
        assert requested.failures("abc") == {}
        requested.request([NewTopic("a")], 100)  # whoever asks does so because it is not there
        await turns()
        assert creation.asked[2:] == [["a"]]
        running.cancel()

    asyncio.run(scenario())


def test_what_failed_is_told_for_a_while_and_not_tried_anew_meanwhile() -> None:
    async def scenario() -> None:
        creation, clock = Creation(), ManualClock()
        creation.wrong["b"] = InvalidReplicationFactor("too many")
        creation.go_on.set()
        requested = RequestedTopics(creation, clock)
        running = asyncio.ensure_future(requested.run())
        requested.request([NewTopic("a"), NewTopic("b")], 100)
        await turns()
        assert requested.failures(["a", "b", "c"]) == {"b": "too many"}
        requested.request([NewTopic("b")], 100)
        await turns()
        assert creation.asked == [["a", "b"]]
        clock.advance(100)
        assert requested.failures(["b"]) == {}
        creation.broken = RequestTimedOut("no controller")
        requested.request([NewTopic("b"), NewTopic("c")], 100)
        await turns()
        assert requested.failures(["b", "c"]) == {"b": "no controller", "c": "no controller"}
        running.cancel()

    asyncio.run(scenario())


def test_only_so_many_failures_are_remembered() -> None:
    async def scenario() -> None:
        creation = Creation()
        creation.broken = RequestTimedOut("no controller")
        creation.go_on.set()
        requested = RequestedTopics(creation, ManualClock())
        running = asyncio.ensure_future(requested.run())
        names = [str(each) for each in range(requested_topics.MAX_REMEMBERED + 50)]
        for name in names:
            requested.request([NewTopic(name)], 100)
        await turns()
        assert len(requested.failures(names)) == requested_topics.MAX_REMEMBERED
        running.cancel()

    asyncio.run(scenario())

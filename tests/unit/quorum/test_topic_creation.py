"""Topics that a broker has another node create."""

import asyncio
from dataclasses import replace

import pytest

from kavka.controller.topics import CreatedTopic, NewTopic
from kavka.metadata.image import EMPTY
from kavka.model.errors import RequestTimedOut, TopicAlreadyExists
from kavka.model.settings import broker_values
from kavka.model.types import Uuid
from kavka.protocol.schemas.create_topics import CreatableTopicResult, CreateTopicsResponse
from kavka.quorum.topic_creation import TopicCreation

ID = Uuid(b"t" * 16)


class Loop:
    """The metadata as this node knows it."""

    image = EMPTY

    def __init__(self):
        self.subscribers = []

    def subscribe(self, subscriber):
        self.subscribers.append(subscriber)

    def learn(self, *names):
        topics = replace(EMPTY.topics, by_name=dict.fromkeys(names))
        self.image = replace(EMPTY, topics=topics)
        for subscriber in self.subscribers:
            subscriber(self.image, None)


class Channel:
    """Answers like a controller that has one of the topics already."""

    def __init__(self):
        self.asked = []

    async def call(self, request):
        self.asked.append(request)
        rows = []
        for topic in request.topics:
            code = TopicAlreadyExists.code if topic.name == "old" else 0
            rows.append(
                CreatableTopicResult(
                    name=topic.name,
                    topic_id=ID,
                    error_code=code,
                    error_message="it is there" if code else None,
                    num_partitions=3,
                    replication_factor=2,
                )
            )
        return CreateTopicsResponse(topics=rows)


def test_created_topics_are_known_here_before_anybody_is_told():
    async def work():
        loop, channel = Loop(), Channel()
        creation = TopicCreation(loop, channel)
        wanted = [NewTopic("new", 3, 2, configs={"retention.ms": "5"}), NewTopic("old")]
        creating = asyncio.create_task(creation.create(wanted))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not creating.done()
        loop.learn("other")
        await asyncio.sleep(0)
        assert not creating.done()
        loop.learn("new")
        outcomes = await creating
        assert outcomes["new"] == CreatedTopic(ID, 3, 2)
        assert isinstance(outcomes["old"], TopicAlreadyExists)
        asked = channel.asked[0].topics[0]
        assert (asked.num_partitions, asked.replication_factor) == (3, 2)
        assert [(config.name, config.value) for config in asked.configs] == [("retention.ms", "5")]

    asyncio.run(asyncio.wait_for(work(), 30))


def test_nobody_waits_for_ever_for_a_topic_that_is_not_heard_of(monkeypatch):
    monkeypatch.setattr("kavka.quorum.topic_creation.KNOWN_HERE_SECONDS", 0.01)

    async def work():
        outcomes = await TopicCreation(Loop(), Channel()).create([NewTopic("new")])
        assert isinstance(outcomes["new"], CreatedTopic)

    asyncio.run(asyncio.wait_for(work(), 30))


def test_only_what_is_missing_and_may_be_created_is_asked_for():
    async def work():
        loop, channel = Loop(), Channel()
        loop.learn("known")
        creation = TopicCreation(loop, channel)
        await creation.create_missing(["known", "bad name", "__consumer_offsets"], broker_values({}))
        assert not channel.asked
        loop.learn("known", "new")

    asyncio.run(asyncio.wait_for(work(), 30))


@pytest.mark.parametrize(
    ("texts", "asked_for"),
    [
        ({}, (-1, -1)),
        ({"num.partitions": "4"}, (4, -1)),
        ({"num.partitions": "1", "default.replication.factor": "2"}, (1, 2)),
    ],
)
def test_a_missing_topic_is_as_large_as_the_broker_that_was_asked_says_if_it_says_so(texts, asked_for):
    async def work():
        loop, channel = Loop(), Channel()
        creating = asyncio.create_task(TopicCreation(loop, channel).create_missing(["new"], broker_values(texts)))
        while not channel.asked:
            await asyncio.sleep(0)
        loop.learn("new")
        await creating
        (topic,) = channel.asked[0].topics
        assert (topic.num_partitions, topic.replication_factor) == asked_for

    asyncio.run(asyncio.wait_for(work(), 30))


def test_without_a_controller_there_is_an_error():
    class Silent:
        async def call(self, request):
            raise RequestTimedOut("nobody")

    async def work():
        with pytest.raises(RequestTimedOut):
            await TopicCreation(Loop(), Silent()).create([NewTopic("new")])

    asyncio.run(asyncio.wait_for(work(), 30))

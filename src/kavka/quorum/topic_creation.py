"""Topics that brokers create by themselves: because a client asked about them, or for a coordinator's state."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from kavka.client.deadline import within
from kavka.controller.topics import CreatedTopic, NewTopic
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage
from kavka.metadata.names import is_internal, is_valid_topic_name
from kavka.model.errors import KafkaError, error_for
from kavka.model.settings import DEFAULT_REPLICATION_FACTOR, NUM_PARTITIONS, Setting, Values
from kavka.quorum.channel import ControllerChannel
from kavka.quorum.controller_loop import ControllerLoop

KNOWN_HERE_SECONDS: Final = 5.0
"""How long a broker waits to read of a topic that the controller says it has created."""


AT_ONCE: Final = 100
"""How many topics a request for metadata creates."""


class TopicCreation:
    """Has the active controller create topics, be it this node or another."""

    def __init__(self, controller: ControllerLoop, channel: ControllerChannel | None = None) -> None:
        self._controller = controller
        self._channel = channel
        self._changed = asyncio.Event()
        if channel is not None:
            controller.subscribe(self._wake)

    @property
    def image(self) -> MetadataImage:
        """The metadata as this node knows it."""
        return self._controller.image

    async def create(self, topics: Sequence[NewTopic]) -> Mapping[str, CreatedTopic | KafkaError]:
        """What became of each topic; those that were created are in the image then. Raises KafkaError."""
        if self._channel is None:
            return await self._controller.submit(lambda machine, _: machine.create_topics(topics))
        outcomes = await self._ask(self._channel, topics)
        created = {name for name, outcome in outcomes.items() if isinstance(outcome, CreatedTopic)}
        try:
            async with within(KNOWN_HERE_SECONDS):
                while not created <= self.image.topics.by_name.keys():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass  # whoever asked asks again
        return outcomes

    async def create_missing(self, names: Iterable[str], values: Values) -> None:
        """Create the topics that are not there; those that cannot be created stay unknown, as in Kafka.

        They are as large as the settings of this broker say, or those of the controller where it has none.
        The coordinators' own topics are not for clients to create: they need other partitions and settings. Of very
        many the first are created, and the others when they are asked for again.
        """
        known = self.image.topics.by_name
        wanted = (name for name in names if name not in known and is_valid_topic_name(name) and not is_internal(name))
        missing = list(islice(wanted, AT_ONCE))
        if missing:
            partitions, replication = chosen(values, NUM_PARTITIONS), chosen(values, DEFAULT_REPLICATION_FACTOR)
            await self.create([NewTopic(name, partitions, replication) for name in missing])

    async def _ask(
        self, channel: ControllerChannel, topics: Sequence[NewTopic]
    ) -> dict[str, CreatedTopic | KafkaError]:
        from kavka.protocol.schemas import create_topics as schema

        request = schema.CreateTopicsRequest(
            topics=[
                schema.CreatableTopic(
                    name=topic.name,
                    num_partitions=topic.partitions,
                    replication_factor=topic.replication,
                    assignments=[],
                    configs=[schema.CreatableTopicConfig(name=key, value=text) for key, text in topic.configs.items()],
                )
                for topic in topics
            ]
        )
        answer: schema.CreateTopicsResponse = await channel.call(request)
        return {
            row.name: error_for(row.error_code, row.error_message)
            if row.error_code
            else CreatedTopic(row.topic_id, row.num_partitions, row.replication_factor)
            for row in answer.topics
        }

    def _wake(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self._changed.set()


def chosen(values: Values, setting: Setting[int]) -> int:
    """What was set; -1, which leaves it to the controller, if nothing was."""
    return values[setting] if setting in values else -1  # noqa: SIM401  (there is no get)

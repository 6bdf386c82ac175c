"""New topics are answered for when the unfenced brokers know them: a client may go to any of them next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from kavka.broker.context import Context
from kavka.broker.forwarding import Handler
from kavka.client.deadline import within
from kavka.metadata.image import MetadataImage
from kavka.model.errors import KafkaError
from kavka.model.types import Uuid
from kavka.protocol.registry import ApiKey

MOST_SECONDS: Final = 2.0
"""How long an answer is held back at most: a broker that stands still must not hold up whoever creates topics."""
AGAIN_SECONDS: Final = 0.005


class Spreading:
    """Asks the brokers of a cluster whether they know what was created."""

    def __init__(
        self, node_id: int, image: Callable[[], MetadataImage], ask: Callable[[int, Any], Awaitable[Any]]
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._ask = ask

    def wrap(self, key: int, handler: Handler) -> Handler:
        """The handler of an API: that of CreateTopics waits, for as long as the request may take."""
        if key != ApiKey.CREATE_TOPICS:
            return handler

        async def spread(request: Any, ctx: Context) -> Any:
            answer = await handler(request, ctx)
            new = {row.name: row.topic_id for row in answer.topics if not row.error_code}
            if new and not request.validate_only:
                try:
                    async with within(min(request.timeout_ms / 1000, MOST_SECONDS)):
                        await self.known(new)
                except TimeoutError:
                    pass  # they are there, and will be known
            return answer

        return spread

    async def known(self, new: Mapping[str, Uuid]) -> None:
        """Return when every unfenced broker knows these topics; a zero id is one that the answer cannot tell."""
        while not all(self._knows_here(name, id_) for name, id_ in new.items()):  # noqa: ASYNC110  (asked like others)
            await asyncio.sleep(AGAIN_SECONDS)
        ids = {self._image().topics.by_name[name].id for name in new}
        for broker in list(self._image().cluster.brokers):
            while broker != self._node_id and not await self._knows(broker, new, ids):  # noqa: ASYNC110  (no event here)
                await asyncio.sleep(AGAIN_SECONDS)

    def _knows_here(self, name: str, id_: Uuid) -> bool:
        topic = self._image().topics.by_name.get(name)
        return topic is not None and id_ in (Uuid.ZERO, topic.id)

    async def _knows(self, broker: int, names: Iterable[str], ids: set[Uuid]) -> bool:
        """Whether a broker knows topics, or need not because it is fenced."""
        if not self._image().cluster.is_active(broker):
            return True
        from kavka.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic

        topics = [MetadataRequestTopic(name=name) for name in names]
        try:
            answer = await self._ask(broker, MetadataRequest(topics=topics, allow_auto_topic_creation=False))
        except KafkaError:
            return False  # it is asked again for as long as it is not fenced
        return ids <= {row.topic_id for row in answer.topics}

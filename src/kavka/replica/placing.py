"""In which directory each replica lies, told to the controller where it knows otherwise (KIP-858).

Only then does it know which replicas are lost with a directory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple

from kavka.client.line import TOLD
from kavka.metadata.image.metadata import MetadataImage
from kavka.model.errors import KafkaError
from kavka.model.types import Uuid
from kavka.pacing.turn import Turn
from kavka.replica.manager import ReplicaManager

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
AT_A_TIME: Final = 2_000


class Placement(NamedTuple):
    """A replica of this node, and the directory that it lies in."""

    directory_id: Uuid
    topic_id: Uuid
    partition: int


AssignDirs = Callable[[Sequence[Placement]], Awaitable[None]]
"""Tells the active controller (AssignReplicasToDirs); a KafkaError if it could not be told."""


class Placing:
    """Looks at the replicas of a node after each change of the metadata."""

    def __init__(self, replicas: ReplicaManager, assign: AssignDirs) -> None:
        self._replicas = replicas
        self._assign = assign
        self._told: tuple[MetadataImage, int] | None = None

    async def run(self) -> None:
        """Look and tell until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._told is None or self._state()[0] is not self._told[0] or self._state()[1] != self._told[1]:
                await self.tell()

    def _state(self) -> tuple[MetadataImage, int]:
        return self._replicas.image, self._replicas.losses

    async def tell(self) -> None:
        """Tell of every replica that lies elsewhere than the metadata says; again later if that fails."""
        image, losses = self._state()
        misplaced = await self._misplaced(image)
        try:
            for first in range(0, len(misplaced), AT_A_TIME):
                await self._assign(misplaced[first : first + AT_A_TIME])
        except TOLD:
            pass  # tried again at the next look
        except KafkaError as error:
            logger.info("AssignReplicasToDirs failed: %s", error)
        except Exception:
            logger.exception("AssignReplicasToDirs failed")
        else:
            self._told = image, losses

    async def _misplaced(self, image: MetadataImage) -> list[Placement]:
        replicas = self._replicas
        found: list[Placement] = []
        turn = Turn()
        for partition in replicas:
            index = partition.topic_partition.partition
            known = image.topics.partition(partition.topic_id, index)
            if known is not None and replicas.held(partition.topic_id, index) is partition:
                actual = replicas.announced(partition).directory_id
                if actual is not None and known.directory(replicas.node_id) != actual:
                    found.append(Placement(actual, partition.topic_id, index))
            await turn.breathe()
        return [*found, *self._lost(image)]

    def _lost(self, image: MetadataImage) -> Iterator[Placement]:
        """Replicas in offline directories that the controller does not know to be there, and so not to be lost."""
        node_id = self._replicas.node_id
        for tp, directory in self._replicas.lost():
            topic = image.topics.by_name.get(tp.topic)
            known = topic.partitions.get(tp.partition) if topic is not None else None
            if topic is None or known is None or node_id not in known.replicas or directory.directory_id is None:
                continue
            if known.directory(node_id) != directory.directory_id:
                yield Placement(directory.directory_id, topic.id, tp.partition)

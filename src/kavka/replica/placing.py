"""In which directory each replica lies, told to the controller where it knows otherwise (KIP-858).

Only then does it know which replicas are lost with a directory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from kavka.client.line import TOLD
from kavka.metadata.image.metadata import MetadataImage
from kavka.model.errors import KafkaError
from kavka.model.types import Uuid
from kavka.replica.manager import SLICE_SECONDS, ReplicaManager

log = logging.getLogger(__name__)

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
        self._told: MetadataImage | None = None

    async def run(self) -> None:
        """Look and tell until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._replicas.image is not self._told:
                await self.tell()

    async def tell(self) -> None:
        """Tell of every replica that lies elsewhere than the metadata says; again later if that fails."""
        image = self._replicas.image
        misplaced = await self._misplaced(image)
        try:
            for first in range(0, len(misplaced), AT_A_TIME):
                await self._assign(misplaced[first : first + AT_A_TIME])
        except TOLD:
            pass  # tried again at the next look
        except KafkaError as error:
            log.info("the controller could not be told where replicas lie: %s", error)
        except Exception:
            log.exception("the controller could not be told where replicas lie")
        else:
            self._told = image

    async def _misplaced(self, image: MetadataImage) -> list[Placement]:
        replicas = self._replicas
        found: list[Placement] = []
        loop = asyncio.get_running_loop()
        turn_ends = loop.time() + SLICE_SECONDS
        for partition in replicas:
            index = partition.topic_partition.partition
            known = image.topics.partition(partition.topic_id, index)
            if known is not None and replicas.held(partition.topic_id, index) is partition:
                actual = replicas.directory_of(partition).directory_id
                if known.directory(replicas.node_id) != actual:
                    found.append(Placement(actual, partition.topic_id, index))
            if loop.time() >= turn_ends:
                await asyncio.sleep(0)
                turn_ends = loop.time() + SLICE_SECONDS
        return found

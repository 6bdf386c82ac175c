"""What a broker with others around it does: it follows leaders, keeps its in-sync replicas, says where replicas lie.

Not imported by a node that is alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kavka.client.connector import Connector
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage
from kavka.model.clock import Clock
from kavka.quorum.channel import ControllerChannel
from kavka.replica.alter_isr import AlterPartitions
from kavka.replica.assign_dirs import AssignReplicas
from kavka.replica.fetchers import Fetchers
from kavka.replica.isr import IsrManager
from kavka.replica.manager import ReplicaManager
from kavka.replica.placing import Placing
from kavka.replica.syncing import Syncer


class Replicating:
    """The replication of a node's partitions, to and from other nodes."""

    def __init__(
        self,
        replicas: ReplicaManager,
        syncer: Syncer,
        connector: Connector,
        clock: Clock,
        channel: ControllerChannel,
        *,
        listener: str,
        broker_epoch: Callable[[], int],
        leaving: Callable[[], bool],
    ) -> None:
        """`channel` is for requests about replicas only, which may have to wait for each other."""
        node_id = replicas.node_id
        self._fetchers = Fetchers(
            replicas, syncer, connector, clock, listener=listener, broker_epoch=broker_epoch, leaving=leaving
        )
        self.isr = IsrManager(replicas, AlterPartitions(node_id, broker_epoch, channel), clock)
        self._placing = Placing(replicas, AssignReplicas(node_id, broker_epoch, channel))

    @property
    def services(self) -> tuple[Fetchers, IsrManager, Placing]:
        """What runs until it is cancelled."""
        return self._fetchers, self.isr, self._placing

    def start(self, image: MetadataImage) -> None:
        """Follow the leaders of what was loaded."""
        self._fetchers.start(image)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Act on a committed change of the metadata, after the replicas have."""
        return self._fetchers.apply(image, delta)

    def close(self) -> None:
        """Append nothing any more."""
        self._fetchers.close()

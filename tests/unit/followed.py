"""A partition of node 1 whose replicas on nodes 2 and 3 are played by the test."""

from __future__ import annotations

from held import CLUSTER, Held

from kavka.controller.brokers import BrokerRequest, Heartbeat
from kavka.controller.topics import NewTopic
from kavka.metadata.features import SUPPORTED
from kavka.model.types import Endpoint, Uuid
from kavka.replica.fetching import FetchEntry
from kavka.replication.isr import BrokerEpoch


class Replicated:
    """A partition of node 1 with replicas on 2 and 3, which are played."""

    def __init__(self, held: Held, isr=(1, 2, 3), **configs) -> None:
        self.held = held
        self.epochs = {}
        for number in (2, 3):
            endpoint = Endpoint("PLAINTEXT", "localhost", 9090 + number, "PLAINTEXT")
            life = Uuid(bytes([number]) * 16)
            request = BrokerRequest(number, CLUSTER, life, (endpoint,), SUPPORTED, (life,), f"rack-{number}")
            epoch = held.write(held.machine.register_broker(request, 0))
            held.write(held.machine.heartbeat(Heartbeat(number, epoch, held.machine.image.offset), 0))
            self.epochs[number] = epoch
        self.partition = self.topic("orders", (1, 2, 3), **configs)
        self.image = held.machine.image.topics.by_name["orders"].partitions[0]
        self.lead(isr=isr)

    def topic(self, name, replicas, **configs):
        """A new topic on these nodes; its only partition."""
        texts = {key.replace("_", "."): str(value) for key, value in configs.items()}
        self.held.write(self.held.machine.create_topics([NewTopic(name, assignments=[(0, replicas)], configs=texts)]))
        return self.held.replicas.find(name, 0)

    def lead(self, **fields):
        """Change what the metadata says."""
        self.image = self.image._replace(partition_epoch=self.image.partition_epoch + 1, **fields)
        self.partition.follow(self.image)

    def fetch(self, follower, offset, *, last_epoch=-1, epoch=0, first=True, start=0, entry=None):
        """A follower fetches."""
        entry = entry or FetchEntry("orders", 0, epoch, offset, last_epoch, start, 1 << 20)
        replica = BrokerEpoch(follower, self.epochs.get(follower, -1))
        return self.partition.fetch_for_follower(entry, replica, first=first, max_bytes=1 << 20, min_one=True)

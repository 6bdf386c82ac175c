"""A world for dead letters: the leader of their topic, whose followers are played, and the share coordinator."""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

from played import PlayedPartition

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from followed import Replicated
from held import FaultyDisk, Held

from kavka.coordinator.record import Record
from kavka.coordinator.share.settings import ShareSettings
from kavka.coordinator.share_state.machine import CODEC, ShareCoordinator, StateChange
from kavka.model.errors import KafkaError, RequestTimedOut
from kavka.model.settings import broker_values
from kavka.model.share import ARCHIVED, NO_START_OFFSET, SharePartitionKey, StateBatch
from kavka.protocol.schemas.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kavka.records.batch import records, scan
from kavka.runtime.dead_letters import OFFSET, DeadLetters, DeadLetterWriter
from kavka.share.partition import REJECTED, Dead

__all__ = ["FaultyDisk", "Held", "Replicas", "World"]


class World:
    """The leader of the dead-letter topic, whose followers are played, and the share coordinator."""

    def __init__(self, held, **configs):
        self.held = held
        self.followed = Replicated(held, **configs)
        self.log = self.followed.partition
        self.script = []
        """What becomes of the next requests: `lost` is appended and not answered, `stuck` neither, `refused`."""
        self.stuck = []
        image = held.machine.image
        self.image = image
        self.key = SharePartitionKey("g", image.topics.by_name["orders"].id, 0)
        self.machine = ShareCoordinator(broker_values({}), image)
        self.offsets = itertools.count()
        self.ids = itertools.count(7)
        self._replay(self.machine.initialize(self.key, 1, 0, 0))
        defaults = ShareSettings(broker_values({})).of_group({})
        self.settings = defaults._replace(dead_letter_topic="orders")

    def _replay(self, transition):
        for record in transition.records:
            read = CODEC.decode(*CODEC.encode(record))
            assert isinstance(read, Record)
            self.machine.replay(read, next(self.offsets))
        return transition.reply

    # -- as a persister ---------------------------------------------------------------------------

    async def read(self, key, leader_epoch):
        return self._replay(self.machine.read(key, leader_epoch, 0))

    async def write(self, key, change):
        self._replay(self.machine.write(key, change, 0))

    @property
    def states(self):
        return self.machine.state.states[self.key].batches

    # -- as a node --------------------------------------------------------------------------------

    async def new_producer_id(self):
        return next(self.ids)

    async def ask(self, node, request):
        step = self.script.pop(0) if self.script else "done"
        batch = request.topic_data[0].partition_data[0].records
        if step == "stuck":
            self.stuck.append(batch)
        if step in ("stuck", "refused"):
            raise RequestTimedOut("no answer")
        code = self.append(batch)
        if step == "dies":
            await asyncio.Event().wait()
        if step == "lost":
            raise RequestTimedOut("no answer")
        row = PartitionProduceResponse(index=0, error_code=code, base_offset=0)
        return ProduceResponse(responses=[TopicProduceResponse(topic_id=self.key.topic_id, partition_responses=[row])])

    def append(self, batch):
        try:
            self.log.append(memoryview(bytes(batch)), -1, self.held.clock.now_ms(), 13)
        except KafkaError as error:
            return error.code
        return 0

    @property
    def written(self):
        """Where the dead letters in the log come from."""
        return [int(dict(record.headers)[OFFSET] or b"") for record in self.records]

    @property
    def records(self):
        found = self.log.log.read(0, 1 << 22, self.log.log.log_end_offset)
        data = found.file.read_at(found.position, found.length)
        return [record for batch in scan(data) for record in records(data, batch)]

    def leader(self, clock):
        replicas = Replicas(self.image)
        letters = DeadLetters(replicas, clock, self.ask, self.new_producer_id)  # type: ignore[arg-type]
        return DeadLetterWriter(self.key, PlayedPartition(), letters, self)  # type: ignore[arg-type]  # as far as asked

    async def give_up(self, writer, first, last, epoch=1):
        change = StateChange(1, epoch, NO_START_OFFSET, 0, [StateBatch(first, last, ARCHIVED, 1)])
        await writer.write(change, [Dead(first, last, 1, REJECTED)], self.settings)

    async def follow(self, writer, epoch):
        """Become the leader after another."""
        found = await self.read(self.key, epoch)
        await writer.finish(found, StateChange(1, epoch, NO_START_OFFSET, 0, ()), self.settings)


class Replicas:
    """A node that holds nothing."""

    def __init__(self, image):
        self.image = image

    def held(self, topic_id, index):
        return None

"""A transaction coordinator whose log is a list, partitions that remember their markers, and a clock to be told."""

from __future__ import annotations

from collections import defaultdict
from itertools import count

from kavka.coordinator.txn.codec import CODEC
from kavka.coordinator.txn.machine import ABORT, EXPIRE, TransactionCoordinator
from kavka.coordinator.txn.requests import NOBODY, Init, ProducerIdAndEpoch
from kavka.coordinator.txn.state import Transaction, entry, read_transaction
from kavka.metadata.delta import apply
from kavka.metadata.image import EMPTY
from kavka.metadata.records.settings import FeatureLevelRecord
from kavka.model.errors import CoordinatorLoadInProgress, KafkaError
from kavka.model.settings import broker_values
from kavka.model.transition import Publish, SetTimer
from kavka.model.types import TopicPartition

START_MS = 1_700_000_000_000
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Coordinator:
    """A machine with its log; markers are due until `write_markers`."""

    def __init__(self, version=2, **settings):
        self.now_ms = START_MS
        self.settings = broker_values({key.replace("_", "."): str(value) for key, value in settings.items()})
        self.image = EMPTY
        self.upgrade(version)
        self.ids = count(1000)
        self.ids_are_there = True
        self.log = []
        self.markers = defaultdict(list)
        self.start()

    def upgrade(self, version):
        record = FeatureLevelRecord(name="transaction.version", feature_level=version)
        self.image, delta = apply(self.image, [record], self.image.offset + 1, 1)
        if hasattr(self, "machine"):
            self.machine.on_metadata(self.image, delta)

    def new_id(self):
        if not self.ids_are_there:
            raise CoordinatorLoadInProgress
        return next(self.ids)

    def start(self):
        self.due, self.timers = [], {}
        self.machine = TransactionCoordinator(self.settings, self.image, new_producer_id=self.new_id)
        for offset, (key, value) in enumerate(self.log):
            self.machine.replay(CODEC.decode(key, value), offset)
        self.carry_out(self.machine.on_loaded(self.now_ms))

    fail_over = start

    def at_epoch(self, epoch, id_="t"):
        """Let an id have come to an epoch."""
        producer = ProducerIdAndEpoch(next(self.ids), epoch)
        self.log.append(CODEC.encode(entry(id_, Transaction(*producer, 60_000, self.now_ms), 1)))
        self.fail_over()
        return producer

    def carry_out(self, transition):
        for record in transition.records:
            written = CODEC.encode(record)
            read = CODEC.decode(*written)
            assert read == record
            self.log.append(written)
            self.machine.replay(read, len(self.log))
        for effect in transition.effects:
            if isinstance(effect, Publish):
                self.due.append(effect.news)
            elif isinstance(effect, SetTimer):
                self.timers[effect.key] = effect.at_ms
        if isinstance(transition.reply, KafkaError):
            raise transition.reply
        return transition.reply

    # -- what clients ask

    def init(self, id_="t", timeout_ms=60_000, known=NOBODY, **more):
        return self.initialize(id_, timeout_ms, known, **more).producer

    def initialize(self, id_="t", timeout_ms=60_000, known=NOBODY, **more):
        request = Init(id_, timeout_ms, ProducerIdAndEpoch(*known), **more)
        return self.carry_out(self.machine.init_producer_id(request, self.now_ms))

    def add(self, producer, *partitions, id_="t", version=2):
        return self.carry_out(self.machine.add_partitions(id_, producer, partitions, version, self.now_ms))

    def verify(self, producer, *partitions, id_="t"):
        return self.machine.verify_partitions(id_, producer, partitions)

    def end(self, producer, commit=True, id_="t", version=2):
        return self.carry_out(
            self.machine.end(id_, producer, commit=commit, client_version=version, now_ms=self.now_ms)
        )

    # -- what happens by itself

    def write_markers(self):
        """Write what is due and tell the machine."""
        due, self.due = self.due, []
        for one in due:
            for partition in one.partitions:
                self.markers[partition].append((one.producer, one.commit))
            self.carry_out(self.machine.complete(one.transactional_id, one.producer, self.now_ms))

    def advance(self, ms):
        end_ms = self.now_ms + ms
        for key in (ABORT, EXPIRE):
            fired = 0
            while self.timers[key] <= end_ms:
                fired += 1  # nothing changes between the many that go off in a long time
                self.now_ms = max(self.now_ms, self.timers.pop(key) if fired < 5 else end_ms)
                self.carry_out(self.machine.on_timer(key, self.now_ms))
        self.now_ms = end_ms

    # -- what can be seen

    def status(self, id_="t"):
        return self.machine.describe(id_).status.label

    def transaction(self, id_="t"):
        return self.machine.describe(id_)

    def written(self):
        """Every record of the log, as transactions."""
        read = [CODEC.decode(key, value) for key, value in self.log]
        return [(one.key.transactional_id, one.value and read_transaction(one.value)) for one in read]

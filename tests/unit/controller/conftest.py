"""A controller whose log is a list."""

from __future__ import annotations

import itertools
import random

import pytest

from kavka.controller.bootstrap import bootstrap_records
from kavka.controller.brokers import BrokerRequest, Heartbeat
from kavka.controller.isr import InSync, IsrRequest
from kavka.controller.machine import Controller
from kavka.controller.topics import NewTopic
from kavka.metadata.features import SUPPORTED
from kavka.model.settings import broker_values
from kavka.model.types import Endpoint, Uuid

CLUSTER = "XtzFyRoARCCFvqzNMVkX_Q"


class Ledger:
    """A controller and the list that remembers it; decisions are written and replayed at once."""

    def __init__(self, *, metadata_version=30, **settings):
        self.settings = broker_values({name.replace("_", "."): str(value) for name, value in settings.items()})
        self.numbers = itertools.count(1)
        self.log = []
        self.now_ms = 1_000_000
        self.machine = self.fresh()
        self.write(self.machine.activate(bootstrap_records(metadata_version), self.now_ms))

    def fresh(self):
        draw = random.Random(7).randint
        return Controller(1, CLUSTER, self.settings, draw=draw, new_id=self.new_id)

    def new_id(self):
        return Uuid(next(self.numbers).to_bytes(16, "big")[::-1])

    def write(self, transition):
        if transition.records:
            self.log += transition.records
            self.machine.replay(transition.records, len(self.log) - 1, 1)
        return transition.reply

    def __getattr__(self, name):
        decide = getattr(self.machine, name)
        return lambda *args, **kwargs: self.write(decide(*args, **kwargs))

    @property
    def image(self):
        return self.machine.image

    def broker(self, id_=1, *, rack=None, unfence=True, dirs=1, **changes):
        """Register a broker and put it in service; returns its epoch."""
        values = {
            "cluster_id": CLUSTER,
            "incarnation_id": self.new_id(),
            "endpoints": (Endpoint("PLAINTEXT", f"host{id_}", 9092, "PLAINTEXT"),),
            "features": SUPPORTED,
            "directories": tuple(Uuid(bytes([200 + number, id_]) * 8) for number in range(dirs)),
            "rack": rack,
        }
        epoch = self.register_broker(BrokerRequest(id_, **{**values, **changes}), self.now_ms)
        if unfence:
            self.heartbeat(Heartbeat(id_, epoch, epoch), self.now_ms)
        return epoch

    def topic(self, name, **values):
        """Create a topic; returns what the controller said of it."""
        return self.create_topics([NewTopic(name, **values)])[name]

    def partition(self, name, index=0):
        return self.image.topics.by_name[name].partitions[index]

    def epoch(self, broker_id):
        return self.image.cluster.brokers[broker_id].epoch

    def beat(self, id_, **more):
        """A heartbeat of a broker that has read everything."""
        values = {"metadata_offset": self.image.offset, **more}
        return self.heartbeat(Heartbeat(id_, self.epoch(id_), **values), self.now_ms)

    def in_sync(self, name, *isr, index=0, sender=None, **changes):
        """What the leader of a partition is told when these shall be in sync with it."""
        now = self.partition(name, index)
        request = IsrRequest(
            topic_id=self.image.topics.by_name[name].id,
            partition=index,
            leader_epoch=now.leader_epoch,
            partition_epoch=now.partition_epoch,
            isr=tuple(replica if isinstance(replica, InSync) else InSync(replica) for replica in isr),
        )
        sender = now.leader if sender is None else sender
        return self.alter_partition(sender, self.epoch(sender), [request._replace(**changes)])[0]


@pytest.fixture(scope="session")
def ledgers():
    """The class, for tests that need several or other settings."""
    return Ledger


@pytest.fixture
def empty():
    """A fresh cluster without brokers."""
    return Ledger()


@pytest.fixture
def node():
    """A standalone node in service."""
    ledger = Ledger()
    ledger.broker()
    return ledger


@pytest.fixture
def three():
    """Three brokers in service, each in a rack of its own."""
    ledger = Ledger()
    for id_ in (1, 2, 3):
        ledger.broker(id_, rack=f"r{id_}")
    return ledger

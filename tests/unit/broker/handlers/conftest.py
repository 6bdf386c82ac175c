"""A controller that commits at once, for handlers to be called with."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest

from kavka.broker.context import Context
from kavka.broker.quotas import Quotas
from kavka.controller.bootstrap import bootstrap_records
from kavka.controller.brokers import BrokerRequest, Heartbeat
from kavka.controller.machine import Controller
from kavka.controller.topics import NewTopic
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.features import SUPPORTED
from kavka.metadata.live import LiveSettings
from kavka.model.clock import ManualClock
from kavka.model.settings import broker_values
from kavka.model.types import Endpoint, Uuid
from kavka.net.session import Session
from kavka.protocol.compiler import decode, encode
from kavka.protocol.schema import declared
from kavka.quorum.status import QuorumStatus, ReplicaStatus
from kavka.quorum.voters import ReplicaKey, Voter

CLUSTER = "XtzFyRoARCCFvqzNMVkX_Q"
DIRECTORY = Uuid(b"d" * 16)


class InstantLoop:
    """Stands in for the ControllerLoop: what is decided is committed."""

    node_id = 1
    cluster_id = CLUSTER
    kraft_version = 1

    def __init__(self, **settings):
        self.values = broker_values({name.replace("_", "."): str(value) for name, value in settings.items()})
        numbers = itertools.count(1)
        self.machine = Controller(
            1,
            CLUSTER,
            self.values,
            draw=random.Random(7).randint,
            new_id=lambda: Uuid((1 << 100 | next(numbers)).to_bytes(16, "big")),
        )
        self.clock = ManualClock()
        self._quotas = Quotas(self.values, self.clock)
        self.error = None
        self.write(self.machine.activate(bootstrap_records(), 0))
        self.broker(1)

    @property
    def image(self):
        return self.machine.image

    @property
    def settings(self):
        """The settings in force under what was set by now."""
        return LiveSettings(1, self.values, self.image)

    @property
    def quotas(self):
        """The quotas that were set by now, and what was used of them."""
        self._quotas.apply(self.image, MetadataDelta())
        return self._quotas

    def write(self, transition):
        if transition.records:
            self.machine.replay(transition.records, self.image.offset + len(transition.records), 1)
        return transition.reply

    async def submit(self, decide):
        if self.error is not None:
            raise self.error
        return self.write(decide(self.machine, 0))

    def upgrade_kraft_version(self, version, validate_only):
        if not validate_only:
            self.machine.kraft_version = version

    def status(self):
        me = ReplicaStatus(1, DIRECTORY, 10, 5, 5)
        voter = Voter(ReplicaKey(1, DIRECTORY), (Endpoint("CONTROLLER", "h", 9093, ""),))
        return QuorumStatus(1, 3, 10, (me,), (), (voter,))

    def broker(self, id_, *, unfence=True, listeners=("PLAINTEXT", "LAN"), rack=None):
        endpoints = tuple(Endpoint(name, f"{name.lower()}{id_}", 9092, "PLAINTEXT") for name in listeners)
        life = Uuid(bytes([id_]) * 16)
        request = BrokerRequest(id_, CLUSTER, life, endpoints, SUPPORTED, (Uuid(bytes([100 + id_]) * 16),), rack)
        epoch = self.write(self.machine.register_broker(request, 0))
        if unfence:
            self.write(self.machine.heartbeat(Heartbeat(id_, epoch, epoch), 0))

    def topic(self, name, **values):
        return self.write(self.machine.create_topics([NewTopic(name, **values)]))[name]


@pytest.fixture
def loop():
    """A standalone node in service, with two listeners."""
    return InstantLoop()


@pytest.fixture(scope="session")
def loops():
    """The class, for tests that need other settings."""
    return InstantLoop


@pytest.fixture(scope="session")
def ask():
    """Call a handler; request and response go over the wire at the version, so what it lacks is lost."""

    def call(function, request, version, *services, listener="PLAINTEXT", guard=None, **session):
        request = decode(type(request), encode(request, version), version)
        key = declared(type(request)).key
        ctx = Context(key, version, "test", Session(1, listener, "127.0.0.1", 50_000, guard=guard, **session), 0)
        response = asyncio.run(function(request, ctx, *services))
        return decode(type(response), encode(response, version), version)

    return call

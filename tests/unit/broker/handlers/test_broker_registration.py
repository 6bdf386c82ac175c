"""Brokers and controllers register, are heard, get producer ids and are forgotten."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.broker.context import Context
from kavka.broker.handlers.allocate_producer_ids import allocate_producer_ids
from kavka.broker.handlers.broker_heartbeat import broker_heartbeat
from kavka.broker.handlers.broker_registration import broker_registration
from kavka.broker.handlers.controller_registration import controller_registration
from kavka.broker.handlers.unregister_broker import unregister_broker
from kavka.metadata.features import SUPPORTED
from kavka.model.errors import (
    BrokerIdNotRegistered,
    InconsistentClusterId,
    InvalidRegistration,
    StaleBrokerEpoch,
)
from kavka.model.types import Endpoint, Uuid
from kavka.net.session import Session
from kavka.protocol.schemas import controller_registration as controllers
from kavka.protocol.schemas.allocate_producer_ids import AllocateProducerIdsRequest
from kavka.protocol.schemas.broker_heartbeat import BrokerHeartbeatRequest
from kavka.protocol.schemas.broker_registration import BrokerRegistrationRequest, Feature, Listener
from kavka.protocol.schemas.unregister_broker import UnregisterBrokerRequest

LIFE, DIRECTORY = Uuid(b"l" * 16), Uuid(b"D" * 16)


def registration(loop, **changes):
    values = {
        "broker_id": 5,
        "cluster_id": loop.cluster_id,
        "incarnation_id": LIFE,
        "listeners": [Listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
        "features": [
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED.items()
        ],
        "rack": "r",
        "log_dirs": [DIRECTORY],
    }
    return BrokerRegistrationRequest(**{**values, **changes})


def beat(loop, epoch, **changes):
    values = {
        "broker_id": 5,
        "broker_epoch": epoch,
        "current_metadata_offset": loop.image.offset,
        "want_fence": False,
        "want_shut_down": False,
    }
    return BrokerHeartbeatRequest(**{**values, **changes})


def test_a_broker_registers_and_comes_into_service(ask, loop):
    epoch = ask(broker_registration, registration(loop), 4, loop).broker_epoch
    known = loop.image.cluster.brokers[5]
    assert (known.epoch, known.fenced, known.rack, known.directories) == (epoch, True, "r", (DIRECTORY,))
    assert known.endpoints == (Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),)
    early = ask(broker_heartbeat, beat(loop, epoch, current_metadata_offset=0), 2, loop)
    assert (early.is_caught_up, early.is_fenced, early.should_shut_down) == (False, True, False)
    answer = ask(broker_heartbeat, beat(loop, epoch), 2, loop)
    assert (answer.is_caught_up, answer.is_fenced, answer.should_shut_down) == (True, False, False)
    answer = ask(broker_heartbeat, beat(loop, epoch, want_shut_down=True), 2, loop)
    assert (answer.is_fenced, answer.should_shut_down) == (True, True)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "other"}, InconsistentClusterId),
        ({"is_migrating_zk_broker": True}, BrokerIdNotRegistered),
        ({"listeners": [Listener(name="A", host="h", port=1, security_protocol=9)]}, InvalidRegistration),
        ({"listeners": [Listener(name="A", host="h", port=1, security_protocol=0)] * 2}, InvalidRegistration),
        ({"log_dirs": []}, InvalidRegistration),
    ],
)
def test_who_cannot_register(ask, loop, changes, error):
    with pytest.raises(error):
        ask(broker_registration, registration(loop, **changes), 4, loop)
    assert 5 not in loop.image.cluster.brokers


def test_the_controller_hears_of_it_when_the_connection_of_a_broker_closes(loop):
    closing: dict[Any, Any] = {}
    told = []
    loop.broker_disconnected = lambda *what: told.append(what)
    ctx = Context(62, 2, "test", Session(7, "CONTROLLER", "h", 50_000), 0, on_close=closing.__setitem__)
    epoch = asyncio.run(broker_registration(registration(loop), ctx, loop)).broker_epoch
    for beats in (0, 2):
        for _ in range(beats):
            asyncio.run(broker_heartbeat(beat(loop, epoch), ctx, loop))
        for callback in closing.values():
            callback()
        assert told == [(5, epoch, 7)]
        told.clear()


def test_another_life_of_a_broker_is_not_heard(ask, loop):
    with pytest.raises(StaleBrokerEpoch):
        ask(broker_heartbeat, beat(loop, 3), 2, loop)


def test_a_controller_registers(ask, loop):
    request = controllers.ControllerRegistrationRequest(
        controller_id=5,
        incarnation_id=LIFE,
        zk_migration_ready=False,
        listeners=[controllers.Listener(name="CONTROLLER", host="h", port=9093, security_protocol=1)],
        features=[controllers.Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
    )
    assert ask(controller_registration, request, 0, loop).error_code == 0
    known = loop.image.cluster.controllers[5]
    assert known.endpoints == (Endpoint("CONTROLLER", "h", 9093, "SSL"),)
    assert known.features == {"metadata.version": (7, 30)}


def test_a_broker_is_forgotten(ask, loop):
    loop.broker(5)
    assert ask(unregister_broker, UnregisterBrokerRequest(broker_id=5), 0, loop).error_code == 0
    assert 5 not in loop.image.cluster.brokers
    with pytest.raises(BrokerIdNotRegistered):
        ask(unregister_broker, UnregisterBrokerRequest(broker_id=5), 0, loop)


def test_a_broker_gets_blocks_of_producer_ids(ask, loop):
    epoch = loop.image.cluster.brokers[1].epoch
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    answers = [ask(allocate_producer_ids, request, 0, loop) for _ in range(2)]
    assert [(answer.producer_id_start, answer.producer_id_len) for answer in answers] == [(0, 1000), (1000, 1000)]
    with pytest.raises(StaleBrokerEpoch):
        ask(allocate_producer_ids, AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch + 1), 0, loop)

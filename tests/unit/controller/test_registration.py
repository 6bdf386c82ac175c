"""Registering brokers and controllers."""

from __future__ import annotations

import pytest

from kavka.controller.brokers import ControllerRequest, Heartbeat
from kavka.metadata.features import SUPPORTED
from kavka.model.errors import (
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    UnsupportedVersion,
)
from kavka.model.types import Endpoint, Uuid

LIFE = Uuid(b"l" * 16)
CONTROLLER = ControllerRequest(1, LIFE, (Endpoint("CONTROLLER", "h", 9093, "PLAINTEXT"),), SUPPORTED)


def test_a_brokers_epoch_is_the_offset_of_its_registration(empty):
    epoch = empty.broker(unfence=False)
    assert empty.log[epoch].broker_id == 1
    known = empty.image.cluster.brokers[1]
    assert (known.epoch, known.fenced, known.features) == (epoch, True, SUPPORTED)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "other"}, InconsistentClusterId),
        ({"directories": ()}, InvalidRegistration),
        ({"directories": (Uuid(b"x" * 16),) * 2}, InvalidRegistration),
        ({"directories": (Uuid(bytes(15) + b"\x05"),)}, InvalidRegistration),
        ({"features": {}}, InvalidRegistration),
        ({"features": {**SUPPORTED, "metadata.version": (7, 29)}}, UnsupportedVersion),
        ({"features": {"metadata.version": (7, 30), "kraft.version": (0, 1)}}, UnsupportedVersion),
    ],
)
def test_what_a_broker_says_of_itself_must_fit_the_cluster(empty, changes, error):
    with pytest.raises(error):
        empty.broker(2, **changes)
    assert 2 not in empty.image.cluster.brokers


def test_a_directory_belongs_to_one_broker_only(node):
    with pytest.raises(InvalidRegistration):
        node.broker(2, directories=node.image.cluster.brokers[1].directories)


def test_another_life_of_a_broker_must_wait_until_the_first_is_silent(node):
    epoch = node.image.cluster.brokers[1].epoch
    node.beat(1)
    node.now_ms += 8_999
    with pytest.raises(DuplicateBrokerRegistration):
        node.broker()
    node.now_ms += 1
    assert node.broker() > epoch


def test_the_same_life_may_register_again_and_stays_as_it_is(node):
    known = node.image.cluster.brokers[1]
    assert node.broker(incarnation_id=known.incarnation_id, unfence=False, rack="r") == known.epoch
    again = node.image.cluster.brokers[1]
    assert (again.fenced, again.rack) == (False, "r")


def test_after_a_clean_stop_a_lone_broker_leads_its_partitions_cleanly_again(node):
    node.topic("a")
    epoch = node.image.cluster.brokers[1].epoch
    node.now_ms += 10_000
    node.broker(previous_epoch=epoch)
    partition = node.partition("a")
    assert (
        partition.leader,
        partition.isr,
        partition.elr,
        partition.leader_epoch,
        partition.leader_recovery_state,
    ) == (1, (1,), (), 2, 0)


def test_after_a_crash_a_lone_broker_leads_again_but_uncleanly_as_in_kafka(node):
    node.topic("a")
    node.now_ms += 10_000
    node.broker()
    partition = node.partition("a")
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (1, (1,), (), ())
    assert (partition.leader_epoch, partition.leader_recovery_state) == (2, 1)


def test_a_controller_registers(empty):
    empty.register_controller(ControllerRequest(1, LIFE, (Endpoint("CONTROLLER", "h", 9093, "PLAINTEXT"),), SUPPORTED))
    assert empty.image.cluster.controllers[1].endpoints[0].listener == "CONTROLLER"


def test_before_metadata_version_3_7_controllers_do_not_register(ledgers):
    with pytest.raises(UnsupportedVersion):
        ledgers(metadata_version=14).register_controller(CONTROLLER)


def test_a_broker_that_was_let_go_may_come_back_at_once(three):
    three.beat(1, want_shut_down=True)
    epoch = three.epoch(1)
    assert three.broker(1, previous_epoch=epoch) > epoch


def test_a_broker_whose_connection_closed_may_come_back_after_the_grace(three):
    epoch = three.epoch(1)
    three.beat(1, connection=7)
    three.broker_disconnected(1, epoch, three.now_ms, 7)
    with pytest.raises(DuplicateBrokerRegistration):
        three.broker(1)
    three.now_ms += 500
    assert three.broker(1) > epoch


def test_a_broker_with_the_same_disks_whose_connection_closed_may_come_back_at_once(three):
    epoch = three.epoch(1)
    disks = three.image.cluster.brokers[1].directories
    three.beat(1, connection=7)
    with pytest.raises(DuplicateBrokerRegistration):
        three.broker(1, directories=disks, connection=8)
    three.broker_disconnected(1, epoch, three.now_ms, 7)
    with pytest.raises(DuplicateBrokerRegistration):  # what was on its way when the process ended
        three.broker(1, directories=disks, connection=6)
    with pytest.raises(DuplicateBrokerRegistration):  # another machine with the same id
        three.broker(1, directories=(Uuid(b"other".ljust(16)),), connection=8)
    assert three.broker(1, directories=disks, connection=8) > epoch


def test_a_broker_that_asks_for_something_after_its_connection_closed_is_there(three):
    disks = three.image.cluster.brokers[1].directories
    three.beat(1, connection=7)
    three.broker_disconnected(1, three.epoch(1), three.now_ms, 7)
    three.allocate_producer_ids(1, three.epoch(1))
    with pytest.raises(DuplicateBrokerRegistration):
        three.broker(1, directories=disks, connection=8)


def test_a_broker_that_a_new_controller_has_not_heard_may_come_back_at_once(three):
    disks = {id_: three.image.cluster.brokers[id_].directories for id_ in (1, 2)}
    three.machine.activate((), three.now_ms)
    three.beat(2, connection=3)
    assert three.broker(1, directories=disks[1], connection=4)
    with pytest.raises(DuplicateBrokerRegistration):
        three.broker(2, directories=disks[2], connection=5)


def test_a_late_registration_of_the_last_life_does_not_take_the_place_of_this_one(three):
    three.now_ms += 9_000
    epoch = three.broker(1, unfence=False)
    with pytest.raises(DuplicateBrokerRegistration):
        three.broker(1)
    three.heartbeat(Heartbeat(1, epoch, epoch), three.now_ms)
    assert three.image.cluster.is_active(1)


def test_a_broker_that_ends_before_its_first_heartbeat_may_come_back_after_the_grace(three):
    three.now_ms += 9_000
    epoch = three.broker(1, unfence=False, connection=7)
    three.broker_disconnected(1, epoch, three.now_ms, 7)
    three.now_ms += 500
    before = len(three.log)
    assert three.broker(1, unfence=False) > epoch
    assert len(three.log) == before + 1


def test_a_broker_that_is_not_heard_after_its_registration_changes_nothing(three):
    three.broker(4, unfence=False)
    three.now_ms += 8_999
    for id_ in (1, 2, 3):
        three.beat(id_)
    before = len(three.log)
    three.tick(three.now_ms + 1)
    assert len(three.log) == before
    assert three.broker(4) == before


def test_a_broker_that_crashed_is_not_eligible_in_its_next_life(three):
    three.topic("a", assignments=[(0, (1, 2, 3))], configs={"min.insync.replicas": "2"})
    three.in_sync("a", 1, 2)
    three.in_sync("a", 1)
    assert three.partition("a").elr == (2,)
    three.now_ms += 10_000
    three.broker(2)
    assert three.partition("a").elr == ()


def test_a_broker_that_stopped_cleanly_stays_eligible_in_its_next_life(three):
    three.topic("a", assignments=[(0, (1, 2, 3))], configs={"min.insync.replicas": "2"})
    three.in_sync("a", 1, 2)
    three.beat(2, want_shut_down=True)
    assert three.partition("a").elr == (2,)
    three.broker(2, previous_epoch=three.epoch(2))
    assert three.partition("a").elr == (2,)

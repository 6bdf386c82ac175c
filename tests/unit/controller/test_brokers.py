"""Hearing from brokers, and taking them out of service."""

from __future__ import annotations

import pytest

from kavka.controller.brokers import Heartbeat
from kavka.controller.contacts import RECONNECT_GRACE_MS
from kavka.metadata.image.topics import NO_LEADER
from kavka.model.errors import BrokerIdNotRegistered, StaleBrokerEpoch
from kavka.model.transition import Divisible, Transition


def test_a_broker_is_unfenced_once_it_has_read_its_own_registration(empty):
    epoch = empty.broker(unfence=False)
    assert empty.beat(1, metadata_offset=epoch - 1) == (False, True, False)
    assert empty.beat(1, want_fence=True) == (True, True, False)
    assert empty.beat(1) == (True, False, False)
    assert empty.image.cluster.is_active(1)


def test_a_silent_broker_is_fenced_and_others_lead(three):
    three.topic("a", replication=3, partitions=3)
    for _ in range(3):
        three.now_ms += 4_000
        for id_ in (2, 3):
            three.beat(id_)
    three.tick(three.now_ms)
    assert three.image.cluster.brokers[1].fenced
    for index in range(3):
        partition = three.partition("a", index)
        assert partition.leader in (2, 3)
        assert 1 not in partition.isr
    assert not three.machine.tick(three.now_ms).records


def test_a_new_leader_gives_every_broker_a_whole_session(three):
    three.write(three.machine.activate([], three.now_ms + 60_000))
    three.tick(three.now_ms + 60_000 + 8_999)
    assert not any(broker.fenced for broker in three.image.cluster.brokers.values())
    three.tick(three.now_ms + 60_000 + 9_000)
    assert any(broker.fenced for broker in three.image.cluster.brokers.values())


def test_a_controlled_shutdown_hands_leaderships_over_first(three):
    three.topic("a", replication=3, partitions=3)
    assert three.beat(1, want_shut_down=True) == (True, False, False)
    assert all(three.partition("a", index).leader != 1 for index in range(3))
    assert three.beat(1, want_shut_down=True).should_shut_down is False
    for id_ in (2, 3):
        three.beat(id_)
    assert three.beat(1, want_shut_down=True) == (True, True, True)
    assert three.image.cluster.brokers[1].fenced


def test_a_lone_broker_may_stop_at_its_second_asking(node):
    node.topic("a")
    assert node.beat(1, want_shut_down=True).should_shut_down is False
    assert node.partition("a").leader == NO_LEADER
    assert node.partition("a").elr == (1,)
    assert node.beat(1, want_shut_down=True).should_shut_down is True


def test_a_heartbeat_of_another_epoch_is_stale(node):
    with pytest.raises(StaleBrokerEpoch):
        node.heartbeat(Heartbeat(1, 3, 9), node.now_ms)
    with pytest.raises(StaleBrokerEpoch):
        node.heartbeat(Heartbeat(2, 3, 9), node.now_ms)


def test_a_lost_directory_moves_the_leaders_of_what_was_in_it(three):
    three.topic("a", replication=3, partitions=3)
    known = three.image.cluster.brokers[1]
    three.beat(1, offline=known.directories)
    assert all(three.partition("a", index).leader != 1 for index in range(3))


def test_cordoned_directories_are_remembered_and_take_no_replicas(node):
    known = node.image.cluster.brokers[1]
    node.beat(1, cordoned=())
    assert node.image.cluster.brokers[1].cordoned == ()
    before = len(node.log)
    node.beat(1, cordoned=())
    assert len(node.log) == before
    node.beat(1, cordoned=known.directories)
    assert node.topic("a").code == 38


def test_a_broker_that_waits_to_be_let_go_asks_for_its_leaderships_to_be_moved_if_that_was_cut_off(three):
    three.topic("a", assignments=[(0, (1, 2)), (1, (1, 3))])
    decided = three.machine.heartbeat(Heartbeat(1, three.epoch(1), three.image.offset, want_shut_down=True), 0)
    assert len(decided.records) == 3
    three.write(Transition(None, decided.records[:2]))
    three.activate([], three.now_ms)  # another controller, which knows only what is written
    assert [three.partition("a", index).leader for index in (0, 1)] == [2, 1]
    assert three.beat(1, want_shut_down=True).should_shut_down is False
    assert [three.partition("a", index).leader for index in (0, 1)] == [2, 3]
    for id_ in (2, 3):
        three.beat(id_)
    assert three.beat(1, want_shut_down=True).should_shut_down is True


# -- fencing early -----------------------------------------------------------------------------------


def test_a_broker_whose_connection_closes_is_fenced_long_before_its_session_ends(three):
    three.topic("a", assignments=[(0, (1, 2, 3))])
    three.tick(three.now_ms)
    for id_ in (1, 2, 3):
        three.beat(id_, connection=id_)
    three.now_ms += 100
    three.broker_disconnected(1, three.epoch(1), three.now_ms, 1)
    assert three.machine.next_deadline_ms() == three.now_ms + RECONNECT_GRACE_MS
    three.tick(three.now_ms + RECONNECT_GRACE_MS - 1)
    assert not three.image.cluster.brokers[1].fenced
    three.tick(three.now_ms + RECONNECT_GRACE_MS)
    assert three.image.cluster.brokers[1].fenced
    assert three.partition("a").leader == 2
    assert three.machine.next_deadline_ms() == three.now_ms - 100 + 9_000


def test_a_broker_that_is_heard_again_in_time_stays_in_service(three):
    three.beat(1, connection=1)
    three.broker_disconnected(1, three.epoch(1), three.now_ms, 1)
    three.now_ms += RECONNECT_GRACE_MS - 1
    three.beat(1, connection=2)
    three.tick(three.now_ms + 2 * RECONNECT_GRACE_MS)
    assert not three.image.cluster.brokers[1].fenced


def test_a_broker_that_asks_for_an_isr_is_there_too(three):
    three.topic("a", assignments=[(0, (1, 2, 3))])
    three.beat(1, connection=1)
    three.broker_disconnected(1, three.epoch(1), three.now_ms, 1)
    three.in_sync("a", 1, 2)
    three.tick(three.now_ms + RECONNECT_GRACE_MS)
    assert not three.image.cluster.brokers[1].fenced


@pytest.mark.parametrize("which", ["an older connection", "another epoch", "an unknown broker"])
def test_a_connection_that_is_not_the_brokers_last_one_says_nothing(three, which):
    three.beat(1, connection=2)
    epoch = three.epoch(1)
    id_, epoch, connection = {
        "an older connection": (1, epoch, 1),
        "another epoch": (1, epoch - 1, 2),
        "an unknown broker": (9, epoch, 2),
    }[which]
    three.broker_disconnected(id_, epoch, three.now_ms, connection)
    three.tick(three.now_ms + RECONNECT_GRACE_MS)
    assert not three.image.cluster.brokers[1].fenced


def test_a_heartbeat_that_lay_unread_on_an_older_connection_does_not_make_it_the_brokers_last_one(three):
    three.beat(1, connection=2)
    three.beat(1, connection=1)
    three.broker_disconnected(1, three.epoch(1), three.now_ms, 1)
    three.tick(three.now_ms + RECONNECT_GRACE_MS)
    assert not three.image.cluster.brokers[1].fenced
    three.broker_disconnected(1, three.epoch(1), three.now_ms, 2)
    three.tick(three.now_ms + 2 * RECONNECT_GRACE_MS)
    assert three.image.cluster.brokers[1].fenced


def test_the_broker_on_the_node_of_the_former_leader_must_be_heard_sooner(three):
    three.activate([], three.now_ms, former_leader=2)
    three.tick(three.now_ms)
    assert three.machine.next_deadline_ms() == three.now_ms + RECONNECT_GRACE_MS
    three.now_ms += RECONNECT_GRACE_MS
    three.tick(three.now_ms)
    fenced = {id_: broker.fenced for id_, broker in three.image.cluster.brokers.items()}
    assert fenced == {1: False, 2: True, 3: False}


def test_silent_brokers_are_fenced_one_at_a_time(three):
    three.tick(three.now_ms)
    three.now_ms += 9_000
    seen = []
    while three.machine.next_deadline_ms() <= three.now_ms:
        three.tick(three.now_ms)
        seen.append(sum(broker.fenced for broker in three.image.cluster.brokers.values()))
    assert seen == [1, 2, 3]


def test_what_fencing_a_broker_with_many_partitions_writes_may_be_written_in_parts(three):
    three.topic("a", partitions=600, replication=3)
    three.now_ms += 9_000
    for id_ in (2, 3):
        three.beat(id_)
    decided = three.machine.tick(three.now_ms)
    assert isinstance(decided.records, Divisible)
    assert len(decided.records) == 601
    half = decided.records[:300]
    three.write(Transition(None, half))
    assert not three.image.cluster.brokers[1].fenced
    three.activate([], three.now_ms, former_leader=1)  # cut off there: the next controller goes on
    three.tick(three.now_ms)
    three.now_ms += RECONNECT_GRACE_MS
    three.tick(three.now_ms)
    assert three.image.cluster.brokers[1].fenced
    assert all(partition.leader in (2, 3) for partition in three.image.topics.by_name["a"].partitions.values())


# -- unregistering -----------------------------------------------------------------------------------


def test_an_unregistered_broker_is_gone_and_others_lead(three):
    three.topic("a", assignments=[(0, (1, 2, 3))])
    three.unregister_broker(1)
    assert 1 not in three.image.cluster.brokers
    assert (three.partition("a").leader, three.partition("a").isr) == (2, (2, 3))
    assert three.partition("a").replicas == (1, 2, 3)
    with pytest.raises(BrokerIdNotRegistered):
        three.unregister_broker(1)
    three.tick(three.now_ms + 8_999)
    assert three.broker(1) == three.epoch(1)

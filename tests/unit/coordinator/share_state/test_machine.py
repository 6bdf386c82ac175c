"""The share coordinator: what it answers, and that its log says all it knows."""

from __future__ import annotations

import pytest
from coordinator.shards import Topics, topic_id
from hypothesis import given
from hypothesis import strategies as st

from kavka.coordinator.record import Record
from kavka.coordinator.share_state.machine import CODEC, COLD, PRUNE, Prune, ShareCoordinator, StateChange
from kavka.coordinator.share_state.records import ShareSnapshotKey, ShareUpdateKey
from kavka.model.errors import KafkaError
from kavka.model.settings import broker_values
from kavka.model.share import DeadLetterProducer, SharePartitionKey, StateBatch
from kavka.model.transition import Publish

KEY = SharePartitionKey("g", topic_id("a"), 0)
OTHER = SharePartitionKey("g", topic_id("a"), 1)
NOWHERE = SharePartitionKey("g", topic_id("z"), 0)
ACKED = StateBatch(0, 9, 2, 1)


def read(written):
    record = CODEC.decode(*written)
    assert isinstance(record, Record)
    return record


class Played:
    """A machine, a list for its log, and a clock."""

    def __init__(self, **settings):
        self.values = broker_values({key.replace("_", "."): str(value) for key, value in settings.items()})
        self.topics = Topics()
        self.topics.create("a", 2)
        self.topics.create("b", 1)
        self.log, self.start, self.now_ms = [], 0, 1000
        self.machine = ShareCoordinator(self.values, self.topics.image)

    def run(self, transition):
        for record in transition.records:
            written = CODEC.encode(record)
            assert CODEC.decode(*written) == record
            self.machine.replay(record, len(self.log))
            self.log.append(written)
        for effect in transition.effects:
            if isinstance(effect, Publish) and isinstance(effect.news, Prune):
                self.start = max(self.start, effect.news.offset)
        return transition.reply

    def ask(self, what, *asked):
        try:
            return self.run(getattr(self.machine, what)(*asked))
        except KafkaError as error:
            return error.code

    def initialize(self, key=KEY, state_epoch=1, start=-1):
        return self.ask("initialize", key, state_epoch, start, self.now_ms)

    def read(self, key=KEY, leader_epoch=1):
        return self.ask("read", key, leader_epoch, self.now_ms)

    def write(self, key=KEY, state_epoch=1, leader_epoch=1, start=0, complete=0, batches=(ACKED,)):
        change = StateChange(state_epoch, leader_epoch, start, complete, batches)
        return self.ask("write", key, change, self.now_ms)

    def loaded(self, start=0):
        machine = ShareCoordinator(self.values, self.topics.image)
        for offset, written in enumerate(self.log[start:], start):
            machine.replay(read(written), offset)
        return machine

    @property
    def kinds(self):
        return [type(read(written).key) for written in self.log]


def test_a_state_is_initialized_read_written_and_deleted():
    played = Played()
    assert played.ask("summary", KEY) == (0, 0, -1, -1)
    assert played.initialize() is None
    assert played.read()[:3] == (1, -1, ())
    assert played.write(complete=10) is None
    assert played.read()[:3] == (1, 0, (ACKED,))
    assert played.ask("summary", KEY) == (1, 1, 0, 10)
    assert played.ask("delete", KEY) is None
    assert played.ask("delete", KEY) is None
    assert played.ask("summary", KEY) == (0, 0, -1, -1)
    assert len(played.log) == 4


def test_what_was_never_initialized_cannot_be_read_or_written():
    played = Played()
    assert (played.read(), played.write()) == (42, 42)


@pytest.mark.parametrize("what", ["initialize", "read", "write"])
def test_a_partition_that_is_not_there(what):
    played = Played()
    ask = getattr(played, what)
    assert ask(SharePartitionKey("g", topic_id("a"), -1)) == 42
    assert played.initialize(NOWHERE) == 3
    assert played.initialize(SharePartitionKey("g", topic_id("a"), 2)) == 3
    for each in ("delete", "summary"):
        assert played.ask(each, NOWHERE) == 3
        assert played.ask(each, SharePartitionKey("g", topic_id("a"), -1)) == 42


def test_a_newer_leader_fences_the_older_one_by_reading():
    played = Played()
    played.initialize()
    played.read(leader_epoch=5)
    written = len(played.log)
    assert played.read(leader_epoch=5)[0] == 1
    assert len(played.log) == written
    assert played.write(leader_epoch=4) == 74
    assert played.read(leader_epoch=4) == 74
    assert played.write(leader_epoch=5) is None
    assert played.read(leader_epoch=-1)[0] == 1
    assert played.loaded().state == played.machine.state


def test_an_initialize_that_comes_late_does_not_forget_what_was_written_since():
    played = Played()
    played.initialize(state_epoch=3)
    played.read()
    played.write(state_epoch=3)
    assert played.initialize(state_epoch=3) is None
    assert played.read().batches == (ACKED,)
    assert played.initialize(state_epoch=3, start=5) is None  # somebody wants other offsets
    assert played.read()[1:3] == (5, ())


def test_a_write_that_was_overtaken_does_not_bring_back_what_is_done_with():
    played = Played()
    played.initialize()
    played.read(leader_epoch=2)
    played.write(leader_epoch=2, start=5, complete=5, batches=(StateBatch(5, 9, 2, 1),))
    played.write(leader_epoch=2, start=10)
    assert played.write(leader_epoch=2, start=5, complete=5, batches=(StateBatch(5, 9, 2, 1),)) is None
    assert played.read(leader_epoch=2)[1:3] == (10, ())
    assert played.ask("summary", KEY).delivery_complete_count == 0
    played.read(leader_epoch=3)
    played.write(leader_epoch=3, start=12)
    assert played.loaded().state == played.machine.state


def test_a_state_that_was_initialized_again_fences_those_who_know_the_old_one():
    played = Played()
    played.initialize(state_epoch=3)
    assert played.write(state_epoch=2) == 124
    assert played.initialize(state_epoch=2) == 124
    played.write(state_epoch=3, complete=10)
    assert played.initialize(state_epoch=4, start=77) is None
    assert played.read()[:3] == (4, 77, ())
    assert played.write(state_epoch=3) == 124
    assert played.ask("summary", KEY).delivery_complete_count == 0


@pytest.mark.parametrize("batch", [StateBatch(3, 2, 0, 1), StateBatch(0, 2, 5, 1), StateBatch(0, 2, -1, 1)])
def test_batches_that_make_no_sense_are_refused(batch):
    played = Played()
    played.initialize()
    assert played.write(batches=(batch,)) == 42


def test_after_so_many_updates_the_whole_state_is_written():
    played = Played(share_coordinator_snapshot_update_records_per_snapshot=2)
    played.initialize()
    for last in range(6):
        played.write(batches=(StateBatch(last, last, 2, 1),))
    snapshot, update = ShareSnapshotKey, ShareUpdateKey
    assert played.kinds == [snapshot, update, update, snapshot, update, update, snapshot]
    assert played.machine.state.states[KEY].batches == [StateBatch(0, 5, 2, 1)]


def test_what_is_before_the_oldest_snapshot_is_pruned_and_cold_states_do_not_keep_it():
    played = Played(share_coordinator_snapshot_update_records_per_snapshot=0)
    played.run(played.machine.on_timer(PRUNE, played.now_ms))
    assert played.start == 0
    played.initialize()
    played.initialize(OTHER)
    for _ in range(3):
        played.write()
    played.run(played.machine.on_timer(PRUNE, played.now_ms))
    assert played.start == 1  # the only record of its state
    played.write(OTHER)
    played.run(played.machine.on_timer(PRUNE, played.now_ms))
    assert played.start == 4
    played.now_ms += 300_000
    played.write(KEY)
    played.run(played.machine.on_timer(COLD, played.now_ms))
    assert len(played.log) == 8
    played.run(played.machine.on_timer(PRUNE, played.now_ms))
    assert played.start == 6
    assert played.loaded(played.start).state == played.machine.state


def test_when_all_states_are_cold_they_are_left_alone():
    played = Played()
    played.initialize()
    for written in (2, 2):
        played.now_ms += 300_000
        played.run(played.machine.on_timer(COLD, played.now_ms))
        assert len(played.log) == written


def test_the_states_of_deleted_topics_are_forgotten():
    played = Played()
    played.initialize()
    played.initialize(SharePartitionKey("g", topic_id("b"), 0))
    delta = played.topics.delete("a")
    late = played.loaded()
    played.run(played.machine.on_metadata(played.topics.image, delta))
    assert [key.topic_id for key in played.machine.state.states] == [topic_id("b")]
    assert [record.key.topic_id for record in late.on_loaded(0).records] == [topic_id("a")]


def test_records_that_make_no_sense_are_passed_over():
    played = Played()
    played.initialize()
    key, value = played.log[0]
    assert type(CODEC.decode(key, value[:-3])).__name__ == "Unknown"
    assert type(CODEC.decode(b"\x00\x07" + key[2:], value)).__name__ == "Unknown"


KEYS = st.sampled_from([KEY, OTHER, SharePartitionKey("h:i", topic_id("b"), 0)])
BATCHES = st.builds(
    lambda first, size, state, count: StateBatch(first, first + size, state, count),
    st.integers(0, 30), st.integers(0, 5), st.sampled_from([0, 2, 4]), st.integers(1, 5),
)  # fmt: skip
STEPS = st.one_of(
    st.tuples(st.just("initialize"), KEYS, st.integers(-1, 3), st.integers(-1, 20)),
    st.tuples(st.just("read"), KEYS, st.integers(-1, 3)),
    st.tuples(
        st.just("write"), KEYS, st.integers(-1, 3), st.integers(-1, 3), st.integers(-1, 20), st.integers(0, 9),
        st.lists(BATCHES, max_size=3),
    ),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("wait"), st.sampled_from([PRUNE, COLD])),
)  # fmt: skip


@given(st.lists(STEPS, max_size=40), st.integers(0, 4))
def test_a_new_coordinator_knows_what_the_old_one_knew(steps, per_snapshot):
    played = Played(share_coordinator_snapshot_update_records_per_snapshot=per_snapshot)
    for what, *rest in steps:
        if what == "wait":
            played.now_ms += 150_000
            played.run(played.machine.on_timer(rest[0], played.now_ms))
        elif what == "delete":
            played.ask("delete", *rest)
        else:
            getattr(played, what)(*rest)
    assert played.loaded().state == played.machine.state
    pruned = played.loaded(played.start).state.states
    assert pruned.keys() == played.machine.state.states.keys()
    for key, state in pruned.items():
        known = played.machine.state.states[key]
        assert (state.batches, state.start_offset, state.state_epoch) == (
            known.batches,
            known.start_offset,
            known.state_epoch,
        )


def test_the_producer_of_dead_letters_is_remembered_until_there_is_another():
    played = Played()
    played.initialize()
    producer = DeadLetterProducer(7, 3, KEY.topic_id, 1)
    change = StateChange(1, 1, 0, 0, (ACKED,), producer)
    assert played.ask("write", KEY, change, 0) is None
    for _ in range(600):  # a snapshot among them
        played.write()
    assert played.read(leader_epoch=2).dead_letters == producer
    assert played.loaded().read(KEY, 3, 0).reply.dead_letters == producer
    overtaken = producer._replace(sequence=0, number=-1)
    late = change._replace(leader_epoch=2, batches=(StateBatch(20, 29, 3, 1),), dead_letters=overtaken)
    assert played.ask("write", KEY, late, 0) is None
    assert (played.read(leader_epoch=2).batches, played.read(leader_epoch=2).dead_letters) == ((ACKED,), producer)
    other = producer._replace(producer_id=-1)
    assert played.ask("write", KEY, change._replace(leader_epoch=2, dead_letters=other), 0) is None
    assert played.read(leader_epoch=2).dead_letters == other

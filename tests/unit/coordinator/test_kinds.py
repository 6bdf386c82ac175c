"""Kinds of groups: how they are found, that none is taken for another, and a further one beside the others."""

from __future__ import annotations

from contextlib import suppress

import pytest
from coordinator.shards import GROUP, Shard
from coordinator.test_replay import CALLS, GROUPS, ODD_CALLS, look_at_everything, run
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.coordinator.classic.kind import ClassicKind
from kavka.coordinator.consumer.kind import ConsumerKind
from kavka.coordinator.kind import GroupKind, UnknownKindError
from kavka.coordinator.kinds import KINDS, codec_of
from kavka.coordinator.offsets.rules import Ageing, commit_time
from kavka.coordinator.record import Record
from kavka.coordinator.requests import Draft
from kavka.coordinator.timers import SESSION, TimerKey
from kavka.model.errors import GroupIdNotFound, KafkaError, UnknownMemberId
from kavka.model.settings import broker_values
from kavka.model.transition import Transition
from kavka.protocol.schema import Int32, record
from kavka.protocol.schemas.list_groups import ListedGroup

QUIET_MS = 60_000


@record(key=120, versions="0", flexible="none")
class TallyKey:
    tally: str


@record(key=120, versions="0", flexible="0+")
class TallyValue:
    number: Int32


class Tally(int):
    """A group that has a number instead of members, and falls back to nothing when nobody counts."""


class TallyKind(GroupKind[Tally]):
    name = "tally"
    group = Tally
    records = ((TallyKey, TallyValue),)
    timers = frozenset(("tally",))

    def __init__(self, context, state, kinds):
        self.context, self.state = context, state
        self.topics, self.settings = [], []

    @staticmethod
    def replay(groups, entry):
        if entry.value is not None:
            groups[entry.key.tally] = Tally(entry.value.number)
        elif isinstance(groups.get(entry.key.tally), Tally):
            del groups[entry.key.tally]

    def count(self, group_id, now_ms):
        before = self.state.groups.get(group_id, 0)
        if before and not isinstance(before, Tally):
            raise GroupIdNotFound(f"{group_id} is no tally")
        draft = Draft()
        draft.records.append(Record(TallyKey(tally=group_id), TallyValue(number=before + 1)))
        draft.effects += self.context.deadlines.put(TimerKey("tally", group_id), now_ms + QUIET_MS)
        return draft.done(before + 1)

    def on_loaded(self, draft, group_id, group, now_ms):
        draft.effects += self.context.deadlines.put(TimerKey("tally", group_id), now_ms + QUIET_MS)

    def on_timer(self, key, now_ms):
        there = isinstance(self.state.groups.get(key.group), Tally)
        return Transition(None, (Record(TallyKey(tally=key.group), TallyValue(number=0)),) if there else ())

    def on_metadata(self, draft, delta, topics):
        self.topics.append(topics)

    def on_settings(self, values):
        self.settings.append(values)

    def listed(self, group_id, group):
        return ListedGroup(group_id=group_id, protocol_type="", group_state=str(group), group_type=self.name)

    def is_empty(self, group_id, group):
        return group == 0

    def delete(self, draft, group_id, group):
        draft.records.append(Record(TallyKey(tally=group_id)))

    def may_expire(self, group_id, group):
        return group == 0

    def ageing(self, group_id, group):
        return Ageing(commit_time, lambda topic: False)


class Counting(Shard):
    """A shard that has tallies too."""

    def __init__(self, topics=None, **more):
        super().__init__(topics, kinds=(*KINDS, TallyKind), **more)

    def count(self, group=GROUP):
        return self.take(self.machine.kind(TallyKind).count(group, self.now_ms))


# -- finding ------------------------------------------------------------------------------------------


def test_a_group_of_no_kind_is_taken_for_none():
    shard = Shard()
    shard.state.groups[GROUP] = Tally(1)
    for ask in (
        shard.listed,
        shard.commit,
        shard.join,
        lambda: shard.delete_groups(GROUP),
        lambda: shard.advance(1 << 40),
    ):
        with pytest.raises(UnknownKindError, match="Tally is no kind of group"):
            ask()
    with pytest.raises(UnknownKindError, match="Tally is no kind of group"):
        shard.machine.on_loaded(shard.now_ms)


def test_a_shard_has_only_the_kinds_that_it_was_given():
    with pytest.raises(UnknownKindError, match="no tally groups"):
        Shard().machine.kind(TallyKind)


def test_a_timer_of_no_kind_is_nobodys():
    shard = Shard()
    key = TimerKey("tally", "g")
    shard.machine._context.deadlines.put(key, 0)
    with pytest.raises(UnknownKindError, match="timers tally"):
        shard.machine.on_timer(key, 1)


def test_two_kinds_do_not_share_records_groups_or_timers():
    class Second(TallyKind):
        name = "second"

    with pytest.raises(ValueError, match="both of type 120"):
        codec_of((*KINDS, TallyKind, Second))
    with pytest.raises(ValueError, match="belongs to tally groups"):
        Shard(kinds=(*KINDS, TallyKind, _with(Second, records=())))
    with pytest.raises(ValueError, match="session belongs to consumer groups"):
        Shard(kinds=(*KINDS, _with(Second, timers=frozenset((SESSION,)))))


def _with(kind, **changes):
    return type(kind.__name__, (kind,), changes)


def test_a_kind_that_needs_another_comes_after_it():
    with pytest.raises(UnknownKindError, match="no classic groups"):
        Shard(kinds=(ConsumerKind, ClassicKind))


# -- beside the others ----------------------------------------------------------------------------------


def test_a_group_of_another_kind_is_let_alone_by_those_of_consumers():
    shard = Counting({"a": 1})
    shard.count()
    assert shard.join().error_code == 23
    with pytest.raises(UnknownMemberId):
        shard.sync("m", 1)
    with pytest.raises(UnknownMemberId):
        shard.classic_beat("m", 1)
    assert shard.leave("m") == [UnknownMemberId.code]
    assert shard.leave("m", version=2) == UnknownMemberId.code
    for call in (shard.beat, shard.commit, shard.delete_offset, lambda: shard.beat("m", -1)):
        with pytest.raises(GroupIdNotFound):
            call()
    assert shard.fetch() == (-1, -1, "", 0)
    assert shard.describe_classic(["g"])[0].error_message == "Group g is not a classic group."
    assert shard.describe_consumer(["g"])[0].error_message == "Group g is not a consumer group."
    assert shard.listed() == {"g": ("1", "tally", "")}


def test_a_kind_hears_of_time_topics_and_settings():
    shard = Counting(offsets_retention_check_interval_ms=600_000)
    assert (shard.count(), shard.count()) == (1, 2)
    assert shard.delete_groups("g") == [68]
    shard.start()
    shard.advance(QUIET_MS)
    assert shard.listed() == {"g": ("0", "tally", "")}
    shard.create_topic("new")
    values = broker_values({})
    shard.machine.on_settings(values)
    assert shard.machine.kind(TallyKind).settings == [values]
    assert shard.machine.kind(TallyKind).topics == [{"new"}]
    shard.advance(600_000)
    assert shard.listed() == {}  # nothing was counted and no offset is left, so it has expired


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.one_of(CALLS, CALLS, ODD_CALLS, st.tuples(st.just("count"), st.fixed_dictionaries({"group": GROUPS}))),
        max_size=40,
    )
)
def test_a_new_leader_rebuilds_groups_of_every_kind(calls):
    shard = Counting({"a": 3, "b": 2})
    for name, values in calls:
        with suppress(KafkaError):
            run(shard, name, values)
        assert shard.loaded().state == shard.state
        look_at_everything(shard)
    assert {answer.key for answer in shard.machine.on_unloaded()} == shard.parked

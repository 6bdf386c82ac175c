"""One step of a member towards its target."""

from __future__ import annotations

import pytest

from kavka.coordinator.consumer.reconcile import Reconciliation
from kavka.coordinator.consumer.state import Member, MemberState
from kavka.model.errors import FencedMemberEpoch
from kavka.model.types import Uuid

A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


def step(member, target, *, owned=None, taken=(), subscribed=(A, B), changed=False):
    owners = dict.fromkeys(taken, "other")
    for assigned in (member.assigned, member.revoking):
        owners |= {(topic_id, each): member.id for topic_id, found in assigned.items() for each in found}
    target = {topic_id: frozenset(found) for topic_id, found in target.items()}
    return Reconciliation(5, target, set(subscribed), owners, owned, changed).step(member)


def summary(member):
    return member.state, member.epoch, dict(member.assigned), dict(member.revoking)


def test_free_partitions_are_given_at_once():
    moved = step(Member("m", epoch=4), {A: {0, 1}})
    assert summary(moved) == (STABLE, 5, {A: {0: 5, 1: 5}}, {})
    assert moved.previous_epoch == 4


def test_what_is_kept_is_known_to_be_held_since_before():
    moved = step(Member("m", epoch=4, assigned={A: {0: 2}}), {A: {0, 1}})
    assert summary(moved) == (STABLE, 5, {A: {0: 2, 1: 5}}, {})


def test_what_others_still_have_is_waited_for():
    moved = step(Member("m", epoch=4), {A: {0, 1}}, taken=[(A, 1)])
    assert summary(moved) == (UNRELEASED, 5, {A: {0: 5}}, {})
    again = step(moved, {A: {0, 1}})
    assert summary(again) == (STABLE, 5, {A: {0: 5, 1: 5}}, {})


def test_what_is_not_wanted_any_more_is_given_back_first():
    member = Member("m", epoch=4, assigned={A: {0: 4, 1: 4}})
    moved = step(member, {A: {1}, B: {0}})
    assert summary(moved) == (UNREVOKED, 4, {A: {1: 4}}, {A: {0: 4}})
    assert step(moved, {A: {1}, B: {0}}) == moved
    assert step(moved, {A: {1}, B: {0}}, owned=[(A, [0, 1])]) == moved
    done = step(moved, {A: {1}, B: {0}}, owned=[(A, [1])])
    assert summary(done) == (STABLE, 5, {A: {1: 4}, B: {0: 5}}, {})


def test_who_does_not_have_it_need_not_give_it_back():
    member = Member("m", epoch=4, assigned={A: {0: 4}})
    assert summary(step(member, {B: {0}}, owned=[])) == (STABLE, 5, {B: {0: 5}}, {})


def test_what_a_member_gives_back_it_can_have_again():
    member = Member("m", epoch=3, state=UNREVOKED, assigned={A: {1: 3}}, revoking={A: {0: 3}})
    assert summary(step(member, {A: {0, 1}}, owned=[(A, [1])])) == (STABLE, 5, {A: {0: 5, 1: 3}}, {})


def test_topics_that_a_member_does_not_want_are_no_target():
    member = Member("m", epoch=4, assigned={B: {0: 4}})
    moved = step(member, {A: {0}, B: {0}}, subscribed=[A])
    assert summary(moved) == (UNREVOKED, 4, {}, {B: {0: 4}})


def test_another_subscription_counts_before_the_next_epoch_does():
    member = Member("m", epoch=5, assigned={A: {0: 5}, B: {0: 5}})
    moved = step(member, {A: {0}, B: {0}}, subscribed=[A], changed=True)
    assert summary(moved) == (UNREVOKED, 5, {A: {0: 5}}, {B: {0: 5}})
    gone = step(member, {A: {0}, B: {0}}, subscribed=[A], changed=True, owned=[(A, [0])])
    assert summary(gone) == (STABLE, 5, {A: {0: 5}}, {})
    more = step(moved, {A: {0}}, subscribed=[], changed=True)
    assert summary(more) == (UNREVOKED, 5, {}, {A: {0: 5}, B: {0: 5}})


def test_a_reconciled_member_is_left_alone():
    member = Member("m", epoch=5, assigned={A: {0: 5}})
    assert step(member, {A: {0}}) is member
    assert step(member, {A: {0}}, changed=True) is member


def test_a_member_in_a_state_of_a_later_version_starts_over():
    member = Member("m", epoch=4, state=MemberState.UNKNOWN, assigned={A: {0: 4}})
    for owned in (None, [(A, [0])]):
        with pytest.raises(FencedMemberEpoch):
            step(member, {A: {1}}, owned=owned)
    assert summary(step(member, {A: {1}}, owned=[])) == (STABLE, 5, {A: {1: 5}}, {})

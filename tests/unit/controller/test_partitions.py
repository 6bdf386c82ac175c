"""Who leads a partition: one test for each rule."""

from __future__ import annotations

import pytest

from kavka.controller.partitions import Assignment, Change, LeaderElection, change_record
from kavka.metadata.image import PartitionImage
from kavka.metadata.image.topics import NO_LEADER, merged
from kavka.model.types import Uuid

TOPIC, DIR = Uuid(b"t" * 16), Uuid(b"d" * 16)


def partition(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, **more):
    return PartitionImage(
        leader=leader,
        leader_epoch=5,
        partition_epoch=9,
        replicas=replicas,
        isr=isr,
        directories=(DIR,) * len(replicas),
        **more,
    )


def decide(now, isr=None, alive=(1, 2, 3), min_isr=1, elr=True, version=30, **more):
    change = Change(
        isr=now.isr if isr is None else isr,
        may_lead=lambda replica: replica in alive,
        min_isr=min_isr,
        elr_enabled=elr,
        metadata_version=version,
        **more,
    )
    record = change_record(TOPIC, 0, now, change)
    return None if record is None else merged(now, record)


def test_nothing_to_change_writes_nothing():
    assert decide(partition()) is None


def test_a_follower_that_leaves_keeps_the_leader_and_its_epoch():
    after = decide(partition(), isr=(1, 2), alive=(1, 2))
    assert (after.leader, after.leader_epoch, after.isr, after.partition_epoch) == (1, 5, (1, 2), 10)


def test_before_metadata_version_3_6_a_shrinking_isr_bumps_the_leader_epoch():
    assert decide(partition(), isr=(1, 2), alive=(1, 2), version=11, elr=False).leader_epoch == 6


def test_when_the_leader_leaves_the_first_in_sync_replica_leads():
    after = decide(partition(isr=(1, 3)), isr=(3,), alive=(2, 3))
    assert (after.leader, after.leader_epoch, after.isr) == (3, 6, (3,))


def test_without_elr_the_last_in_sync_replica_stays_in_the_isr_when_it_leaves():
    after = decide(partition(isr=(1,)), isr=(), alive=(2, 3), elr=False)
    assert (after.leader, after.isr, after.elr, after.last_known_elr) == (NO_LEADER, (1,), (), ())


def test_with_elr_a_replica_that_leaves_below_min_isr_stays_eligible():
    after = decide(partition(isr=(1, 2)), isr=(1,), alive=(1,), min_isr=2)
    assert (after.isr, after.elr, after.leader) == ((1,), (2,), 1)


def test_with_elr_the_last_replica_becomes_eligible_and_is_remembered_as_leader():
    after = decide(partition(isr=(1,)), isr=(), alive=(2, 3))
    assert (after.leader, after.isr, after.elr, after.last_known_elr) == (NO_LEADER, (), (1,), (1,))


def test_an_eligible_replica_that_returns_leads_cleanly():
    gone = decide(partition(isr=(1,)), isr=(), alive=())
    after = decide(gone, alive=(1,))
    assert (after.leader, after.isr, after.elr, after.last_known_elr, after.leader_recovery_state) == (
        1,
        (1,),
        (),
        (),
        0,
    )


def test_a_replica_that_crashed_is_not_eligible():
    gone = decide(partition(isr=(1,)), isr=(), alive=())
    after = decide(gone, alive=(), crashed=(1,))
    assert (after.elr, after.last_known_elr, after.leader) == ((), (1,), NO_LEADER)


def test_the_last_known_leader_leads_uncleanly_when_nobody_is_eligible():
    lost = partition(isr=(), leader=NO_LEADER, last_known_elr=(1,))
    after = decide(lost, alive=(1, 2))
    assert (after.leader, after.isr, after.last_known_elr, after.leader_recovery_state) == (1, (1,), (), 1)


def test_enough_in_sync_replicas_need_no_eligible_ones():
    after = decide(partition(isr=(1,), elr=(2,)), isr=(1, 3), min_isr=2)
    assert (after.isr, after.elr) == ((1, 3), ())


@pytest.mark.parametrize(("election", "leader"), [(LeaderElection.ONLINE, NO_LEADER), (LeaderElection.UNCLEAN, 2)])
def test_only_an_unclean_election_takes_a_replica_that_is_not_in_sync(election, leader):
    after = decide(partition(isr=(1,)), isr=(), alive=(2, 3), election=election)
    assert after.leader == leader
    if leader != NO_LEADER:
        assert (after.isr, after.elr, after.leader_recovery_state) == ((2,), (), 1)


def test_a_preferred_election_goes_back_to_the_first_replica():
    assert decide(partition(leader=2), election=LeaderElection.PREFERRED).leader == 1
    assert decide(partition(leader=2), election=LeaderElection.PREFERRED, alive=(2, 3)) is None


def test_an_unclean_leader_leaves_nobody_eligible():
    """Its directory is lost, so the only in-sync replica cannot lead, and an eligible one is not asked."""
    after = decide(partition(isr=(1,), elr=(2,)), alive=(2, 3), election=LeaderElection.UNCLEAN, min_isr=2)
    assert (after.leader, after.isr, after.elr, after.leader_recovery_state) == (2, (2,), (), 1)


def test_a_removed_replica_is_not_eligible_to_lead():
    now = partition(replicas=(1, 2, 3), isr=(1, 2), elr=(3,), leader=1)
    after = decide(now, assignment=Assignment((1, 2)), isr=(1,), min_isr=2)
    assert (after.replicas, after.elr) == ((1, 2), (2,))


def test_a_last_known_leader_that_was_moved_away_is_not_elected():
    lost = partition(replicas=(2, 3), isr=(), leader=NO_LEADER, last_known_elr=(1,))
    assert decide(lost, alive=(1, 2, 3)) is None


def test_losing_a_replica_counts_up_the_leader_epoch_and_gaining_one_does_not():
    fewer = decide(partition(), assignment=Assignment((1, 2)), isr=(1, 2))
    assert (fewer.leader, fewer.leader_epoch, fewer.directories) == (1, 6, (DIR, DIR))
    other = Uuid(b"o" * 16)
    more = decide(partition(), assignment=Assignment((1, 2, 3, 4), adding=(4,)), default_directory=lambda _: other)
    assert (more.leader_epoch, more.adding, more.directories) == (5, (4,), (DIR, DIR, DIR, other))


def test_before_directories_had_ids_none_are_written():
    change = Assignment((1, 2, 3, 4), adding=(4,))
    record = change_record(TOPIC, 0, partition(), Change((1, 2, 3), lambda _: True, 1, False, 16, assignment=change))
    assert (record.replicas, record.directories) == ([1, 2, 3, 4], None)


def test_a_leader_that_has_recovered_says_so():
    recovering = partition(isr=(1,), leader_recovery_state=1)
    assert decide(recovering, recovery=0).leader_recovery_state == 0
    assert decide(recovering, recovery=1) is None


def test_a_partition_that_never_had_a_leader_remembers_none():
    now = partition(replicas=(1, 2), isr=(), leader=NO_LEADER)
    after = decide(now, assignment=Assignment((1,)), alive=())
    assert (after.leader, after.leader_epoch, after.last_known_elr) == (NO_LEADER, 6, ())

"""One partition's change: its leader, its ISR and where its replicas are, as the record that says so.

A pure function of the partition and of what shall happen to it; KIP-455 (reassignment) and KIP-966 (ELR) included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from kavka.metadata.features import MV_DIRECTORIES, MV_ISR_SHRINK_KEEPS_EPOCH
from kavka.metadata.image import PartitionImage
from kavka.metadata.image.cluster import UNASSIGNED
from kavka.metadata.image.topics import NO_LEADER, NO_LEADER_CHANGE, LeaderRecoveryState
from kavka.metadata.records.topics import PartitionChangeRecord
from kavka.model.types import Uuid


class LeaderElection(Enum):
    """How a leader is looked for."""

    ONLINE = "the present leader if it may stay, else any in-sync replica"
    PREFERRED = "the first replica if it may lead, else as ONLINE"
    UNCLEAN = "as ONLINE, else any live replica though records may be lost"


class Assignment(NamedTuple):
    """Where a partition's replicas are, and which of them are about to come or go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    def finished(self, isr: tuple[int, ...]) -> tuple[Assignment, tuple[int, ...]] | None:
        """The assignment and the ISR once those that go are gone; None while it cannot be finished (KIP-455).

        All that come must be in sync; and where the number of replicas shrinks, all that stay, so that a partition
        never loses in-sync replicas by it.
        """
        if not self.adding and not self.removing:
            return None
        left = tuple(replica for replica in isr if replica not in self.removing)
        stay = tuple(replica for replica in self.replicas if replica not in self.removing)
        if self.removing and not (left and stay):
            return None
        if not set(self.adding) <= set(left):
            return None
        if len(self.adding) < len(self.removing) and not set(stay) <= set(left):
            return None
        return Assignment(stay), left


class Change(NamedTuple):
    """What shall happen to a partition."""

    isr: tuple[int, ...]
    may_lead: Callable[[int], bool]
    min_isr: int
    elr_enabled: bool
    metadata_version: int
    election: LeaderElection = LeaderElection.ONLINE
    chosen: int | None = None
    """Which replica shall lead if that may lose records; None for the first that can."""
    crashed: tuple[int, ...] = ()
    """Replicas that stopped uncleanly: what they had may be gone, so they are not eligible to lead."""
    assignment: Assignment | None = None
    """Where the replicas shall be; None leaves them where they are."""
    recovery: int = LeaderRecoveryState.NO_CHANGE
    directories: Mapping[int, Uuid] = {}
    """Where replicas turned out to be on their brokers."""
    default_directory: Callable[[int], Uuid] = lambda _: UNASSIGNED


class _Next(NamedTuple):
    """A partition as it will be, before its epochs are counted."""

    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    unclean: bool


class _Said(NamedTuple):
    """The fields of a change record."""

    isr: list[int] | None = None
    leader: int = NO_LEADER_CHANGE
    replicas: list[int] | None = None
    adding_replicas: list[int] | None = None
    removing_replicas: list[int] | None = None
    leader_recovery_state: int = LeaderRecoveryState.NO_CHANGE
    directories: list[Uuid] | None = None
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None


_NOTHING: Final = _Said()


def change_record(topic_id: Uuid, index: int, now: PartitionImage, change: Change) -> PartitionChangeRecord | None:
    """The record that carries out a change; None if the partition stays as it is."""
    assignment, isr = change.assignment or Assignment(now.replicas, now.adding, now.removing), change.isr
    if done := assignment.finished(isr):
        assignment, isr = done
        change = change._replace(isr=isr)
    then = _elected(now, change, assignment.replicas)
    bump = (
        then.leader != now.leader
        or (assignment.replicas is not now.replicas and not set(now.replicas) <= set(assignment.replicas))
        or _shrink_bumps(now, then.isr, change)
    )
    leader = then.leader if bump else NO_LEADER_CHANGE
    after = _Said(
        isr=list(then.isr) if then.isr != now.isr or then.unclean else None,
        leader=leader,
        replicas=_unless_same(assignment.replicas, now.replicas),
        adding_replicas=_unless_same(assignment.adding, now.adding),
        removing_replicas=_unless_same(assignment.removing, now.removing),
        leader_recovery_state=_recovery(now, change, then),
        directories=_directories(now, change, assignment.replicas),
        eligible_leader_replicas=_unless_same(then.elr, now.elr),
        last_known_elr=_last_known_leader(now, leader, change),
    )
    # A record that says nothing is not written: every record counts up the partition epoch.
    return (
        None if after == _NOTHING else PartitionChangeRecord(partition_id=index, topic_id=topic_id, **after._asdict())
    )


def _elected(now: PartitionImage, change: Change, replicas: tuple[int, ...]) -> _Next:
    isr, elr = change.isr, _next_elr(now, change, replicas)
    leader, unclean = _elect(now, change, replicas, elr)
    unclean = unclean and leader != now.leader
    if unclean:
        # The only replica that is known to have what the new leader has is the new leader itself.
        isr, elr = (leader,), ()
    elif leader != now.leader and leader in elr:
        isr, elr = (leader,), tuple(replica for replica in elr if replica != leader)
    if not isr and not change.elr_enabled:
        isr = now.isr  # without ELR the last in-sync replicas are remembered in the ISR
    return _Next(leader, isr, elr, unclean)


def _next_elr(now: PartitionImage, change: Change, replicas: tuple[int, ...]) -> tuple[int, ...]:
    """Replicas that left the ISR while it was below min.insync.replicas: they still have every committed record."""
    if not change.elr_enabled or len(change.isr) >= change.min_isr:
        return ()
    return tuple(
        replica
        for replica in dict.fromkeys((*now.elr, *now.isr))
        if replica not in change.isr and replica not in change.crashed and replica in replicas
    )


def _elect(now: PartitionImage, change: Change, replicas: tuple[int, ...], elr: tuple[int, ...]) -> tuple[int, bool]:
    """The leader and whether records may be lost by electing it."""
    candidates = change.isr or elr

    def eligible(replica: int) -> bool:
        return replica in candidates and change.may_lead(replica)

    if change.election is LeaderElection.PREFERRED and eligible(replicas[0]):
        return replicas[0], False
    if eligible(now.leader):
        return now.leader, False
    for replica in replicas:
        if eligible(replica):
            return replica, False
    last_known = now.last_known_elr
    trusted = len(last_known) == 1 and last_known[0] in replicas and change.may_lead(last_known[0])
    if change.elr_enabled and not candidates and trusted:
        return last_known[0], True
    if change.election is LeaderElection.UNCLEAN:
        for replica in replicas if change.chosen is None else (change.chosen,):
            if replica in replicas and change.may_lead(replica):
                return replica, True
    return NO_LEADER, False


def _shrink_bumps(now: PartitionImage, isr: tuple[int, ...], change: Change) -> bool:
    """Whether a shrinking ISR needs a new leader epoch: only for brokers older than 3.6 (KAFKA-15021)."""
    return change.metadata_version < MV_ISR_SHRINK_KEEPS_EPOCH and not set(now.isr) <= set(isr)


def _recovery(now: PartitionImage, change: Change, then: _Next) -> int:
    if change.recovery not in (LeaderRecoveryState.NO_CHANGE, now.leader_recovery_state):
        return int(change.recovery)
    if then.unclean and now.leader_recovery_state != LeaderRecoveryState.RECOVERING:
        return int(LeaderRecoveryState.RECOVERING)
    return int(LeaderRecoveryState.NO_CHANGE)


def _directories(now: PartitionImage, change: Change, replicas: tuple[int, ...]) -> list[Uuid] | None:
    if change.metadata_version < MV_DIRECTORIES:
        return None
    if replicas is now.replicas and not change.directories:
        return None
    found = dict(zip(now.replicas, now.directories, strict=True)) | dict(change.directories)
    after = [found[replica] if replica in found else change.default_directory(replica) for replica in replicas]
    return after if tuple(after) != now.directories else None


def _last_known_leader(now: PartitionImage, leader: int, change: Change) -> list[int] | None:
    """The last leader is remembered while there is none, for when all else is lost; None means no change."""
    if not change.elr_enabled:
        return None
    if leader == NO_LEADER and not now.last_known_elr and now.leader != NO_LEADER:
        return [now.leader]
    if leader >= 0 and now.last_known_elr:
        return []
    return None


def _unless_same(after: tuple[int, ...], before: tuple[int, ...]) -> list[int] | None:
    return None if after == before else list(after)

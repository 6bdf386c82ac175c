"""How a member gets from what it has to what it shall have (KIP-848, the reconciliation process).

A member first gives back what it shall not have, and says so by no longer naming it as owned; only then does it move
to the epoch of the target assignment. What it shall have is given to it as soon as nobody else has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from kavka.coordinator.assignors.spec import Partitions
from kavka.coordinator.consumer.state import NOTHING_ASSIGNED, Assigned, Member, MemberState
from kavka.model.errors import FencedMemberEpoch
from kavka.model.types import Uuid

Owned = Sequence[tuple[Uuid, Sequence[int]]]
"""The partitions that a member says it has."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What a member is moved towards, and what is known of the others."""

    target_epoch: int
    target: Partitions
    subscribed: Set[Uuid]
    owners: Mapping[tuple[Uuid, int], str]
    owned: Owned | None
    """What the member says it has; None when it does not say."""
    subscription_changed: bool = False

    def step(self, member: Member) -> Member:
        """The member, as far as it can get now."""
        match member.state:
            case MemberState.STABLE:
                if member.epoch != self.target_epoch:
                    return self._move(member, member.epoch)
                return self._unsubscribe(member) if self.subscription_changed else member
            case MemberState.UNREVOKED_PARTITIONS:
                if self._still_owns(member.revoking):
                    return self._unsubscribe(member) if self.subscription_changed else member
                return self._move(member, member.epoch)
            case MemberState.UNRELEASED_PARTITIONS:
                return self._move(member, member.epoch)
            case _:
                # Written by a later version. The member starts over, without any partitions.
                if self.owned is None or self.owned:
                    raise FencedMemberEpoch("the member is in a state that is not known here and must join anew")
                return self._move(member, self.target_epoch)

    def _still_owns(self, revoking: Assigned) -> bool:
        if self.owned is None:
            return True
        return any(each in revoking.get(topic_id, {}) for topic_id, partitions in self.owned for each in partitions)

    def _unsubscribe(self, member: Member) -> Member:
        """Take away the topics that the member no longer wants, without going to another epoch."""
        gone = [topic_id for topic_id in member.assigned if topic_id not in self.subscribed]
        if not gone:
            return member
        assigned = {id_: partitions for id_, partitions in member.assigned.items() if id_ in self.subscribed}
        revoking = dict(member.revoking)
        for topic_id in gone:
            revoking[topic_id] = {**revoking.get(topic_id, {}), **member.assigned[topic_id]}
        if self._still_owns(revoking):
            return replace(
                member,
                state=MemberState.UNREVOKED_PARTITIONS,
                previous_epoch=member.epoch,
                assigned=assigned,
                revoking=revoking,
            )
        return replace(member, previous_epoch=member.epoch, assigned=assigned)

    def _move(self, member: Member, epoch: int) -> Member:
        """Work out what to keep, to give back, to be given and to wait for."""
        keep: dict[Uuid, dict[int, int]] = {}
        revoke: dict[Uuid, dict[int, int]] = {}
        unreleased = False
        for topic_id in {**self.target, **member.assigned}:
            wanted = self.target.get(topic_id, frozenset()) if topic_id in self.subscribed else frozenset()
            current = member.assigned.get(topic_id, {})
            keep[topic_id] = {each: since for each, since in current.items() if each in wanted}
            revoke[topic_id] = {each: since for each, since in current.items() if each not in wanted}
        given = {topic_id: dict(partitions) for topic_id, partitions in keep.items()}
        for topic_id, partitions in given.items():
            if topic_id in self.subscribed:
                for each in self.target.get(topic_id, frozenset()):
                    if each not in partitions:
                        # What the member itself is giving back it may just as well keep.
                        if self.owners.get((topic_id, each), member.id) == member.id:
                            partitions[each] = self.target_epoch
                        else:
                            unreleased = True
        pending = _filled(revoke)
        if pending and self._still_owns(pending):
            return replace(
                member,
                state=MemberState.UNREVOKED_PARTITIONS,
                epoch=epoch,
                previous_epoch=member.epoch,
                assigned=_filled(keep),
                revoking=pending,
            )
        return replace(
            member,
            state=MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE,
            epoch=self.target_epoch,
            previous_epoch=member.epoch,
            assigned=_filled(given),
            revoking=NOTHING_ASSIGNED,
        )


def _filled(assigned: dict[Uuid, dict[int, int]]) -> Assigned:
    return {topic_id: partitions for topic_id, partitions in assigned.items() if partitions}

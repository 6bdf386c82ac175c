"""What a majority of the voters says: the count of an election, and the offset that most have reached."""

from __future__ import annotations

from collections.abc import Iterable

from kavka.raft.voters import ReplicaKey, VoterSet


def majority_offset(offsets: Iterable[int]) -> int:
    """The largest offset that a majority of the voters has reached; one offset for each voter."""
    descending = sorted(offsets, reverse=True)
    return descending[len(descending) // 2]


class Tally:
    """The votes of one election, or of one round of pre-votes; the nominee votes for itself, if it is a voter."""

    __slots__ = ("_voters", "_votes")

    def __init__(self, voters: VoterSet, nominee: int) -> None:
        self._voters = {voter.key.id: voter.key for voter in voters}
        self._votes: dict[int, bool] = {}
        self.record(nominee, True)

    def record(self, voter_id: int, granted: bool) -> None:
        """Count a voter's answer; one that is no voter does not count."""
        if voter_id in self._voters:
            self._votes[voter_id] = granted

    @property
    def majority(self) -> int:
        """How many votes win."""
        return len(self._voters) // 2 + 1

    @property
    def is_won(self) -> bool:
        """Whether enough voters have granted theirs."""
        return sum(self._votes.values()) >= self.majority

    @property
    def is_lost(self) -> bool:
        """Whether too many have refused for it to be won yet."""
        return len(self._voters) - sum(not granted for granted in self._votes.values()) < self.majority

    @property
    def granted(self) -> tuple[int, ...]:
        """Who has granted."""
        return tuple(id_ for id_, granted in self._votes.items() if granted)

    @property
    def missing(self) -> list[ReplicaKey]:
        """Who has not answered yet."""
        return [key for id_, key in self._voters.items() if id_ not in self._votes]

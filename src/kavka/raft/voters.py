"""Voters: replica keys, voter sets, and the history of voter sets in the log (KIP-853).

A voter set takes effect when it is appended, committed or not; so the history is kept by offset, and what is
truncated from the log is taken back from the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kavka.model.types import Endpoint, Uuid

NOBODY: Final = -1
"""The id of no replica."""


class ReplicaKey(NamedTuple):
    """A replica: its node's id, and the directory that holds its log (zero where it is not known)."""

    id: int
    directory_id: Uuid = Uuid.ZERO

    def names(self, other: ReplicaKey) -> bool:
        """Whether the other is the replica meant by this key; without a directory the id decides."""
        return self.id == other.id and self.directory_id in (Uuid.ZERO, other.directory_id)


class Voter(NamedTuple):
    """A replica that votes, where it listens, and the kraft.versions it knows."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    min_version: int = 0
    max_version: int = 1

    def supports(self, kraft_version: int) -> bool:
        """Whether the voter knows a version of the quorum's protocol."""
        return self.min_version <= kraft_version <= self.max_version


class VoterSet:
    """The voters at one point of the log; immutable."""

    __slots__ = ("_voters",)

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self._voters: Mapping[int, Voter] = {voter.key.id: voter for voter in voters}

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._voters.values())

    def __len__(self) -> int:
        return len(self._voters)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._voters

    def __eq__(self, other: object) -> bool:
        return self._voters == other._voters if isinstance(other, VoterSet) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._voters.values()))

    def __repr__(self) -> str:
        return f"VoterSet({list(self)!r})"

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of the voters."""
        return tuple(self._voters)

    def get(self, id_: int) -> Voter | None:
        """The voter with an id."""
        return self._voters.get(id_)

    def endpoints(self, id_: int) -> tuple[Endpoint, ...]:
        """The endpoints of a voter; none for a node that is no voter."""
        voter = self._voters.get(id_)
        return voter.endpoints if voter is not None else ()

    def is_voter(self, key: ReplicaKey) -> bool:
        """Whether a replica is a voter."""
        voter = self._voters.get(key.id)
        return voter is not None and voter.key.names(key)

    def is_only_voter(self, key: ReplicaKey) -> bool:
        """Whether a replica is the whole quorum."""
        return len(self._voters) == 1 and self.is_voter(key)

    def needs_update(self, voter: Voter) -> bool:
        """Whether the set knows this replica, but not as it is now."""
        known = self._voters.get(voter.key.id)
        return known is not None and known.key.names(voter.key) and known != voter

    def with_added(self, voter: Voter) -> VoterSet | None:
        """The set with one more voter; None if it has one with this id."""
        return None if voter.key.id in self._voters else VoterSet([*self, voter])

    def without(self, key: ReplicaKey) -> VoterSet | None:
        """The set without a voter; None if it has no such voter, or no other."""
        known = self._voters.get(key.id)
        if known is None or known.key != key or len(self._voters) == 1:
            return None
        return VoterSet(voter for voter in self if voter.key.id != key.id)

    def with_updated(self, voter: Voter, *, any_directory: bool = False) -> VoterSet | None:
        """The set with a voter's description replaced; None if it is not of the set."""
        known = self._voters.get(voter.key.id)
        if known is None or not (any_directory or known.key.names(voter.key)):
            return None
        return VoterSet(voter if known_voter.key.id == voter.key.id else known_voter for known_voter in self)


class ControlChange(NamedTuple):
    """What a control record changes from its offset on: the voters, the kraft.version, or both."""

    offset: int
    voters: VoterSet | None = None
    kraft_version: int | None = None


class _VotersAt(NamedTuple):
    """A voter set, and the offset of the record that set it."""

    offset: int
    voters: VoterSet


class _VersionAt(NamedTuple):
    """A kraft.version, and the offset of the record that set it."""

    offset: int
    version: int


class VoterHistory:
    """The voter sets and kraft.versions by the offset of the record that set them.

    `static` are the voters that the configuration names (kraft.version 0); what the log or a snapshot says wins.
    A set that comes from the formatted snapshot 0-0 has offset -1: the first leader writes it into the log.
    """

    __slots__ = ("_sets", "_static", "_versions")

    def __init__(self, static: VoterSet | None = None, changes: Iterable[ControlChange] = ()) -> None:
        self._static = static if static is not None else VoterSet()
        self._sets: list[_VotersAt] = []
        self._versions: list[_VersionAt] = []
        self.add(changes)

    @property
    def voters(self) -> VoterSet:
        """The voters in force."""
        return self._sets[-1].voters if self._sets else self._static

    @property
    def voters_offset(self) -> int | None:
        """The offset of the record that set them; None if the configuration did."""
        return self._sets[-1].offset if self._sets else None

    @property
    def former_voters(self) -> VoterSet | None:
        """The voters before those in force, as far as the log still says."""
        return self._sets[-2].voters if len(self._sets) > 1 else None

    @property
    def kraft_version(self) -> int:
        """The kraft.version in force."""
        return self._versions[-1].version if self._versions else 0

    def at(self, offset: int) -> tuple[int, VoterSet]:
        """The kraft.version and voters in force once the record at an offset is: what a snapshot after it must say."""
        version = next((version for at, version in reversed(self._versions) if at <= offset), 0)
        return version, next((voters for at, voters in reversed(self._sets) if at <= offset), self._static)

    def add(self, changes: Iterable[ControlChange]) -> None:
        """Take note of control records that were appended, in the log's order."""
        for offset, voters, version in changes:
            if voters is not None:
                self._sets.append(_VotersAt(offset, voters))
            if version is not None:
                self._versions.append(_VersionAt(offset, version))

    def truncate(self, end_offset: int) -> None:
        """Take back what the log no longer has: everything at or after an offset."""
        while self._sets and self._sets[-1].offset >= end_offset:
            self._sets.pop()
        while self._versions and self._versions[-1].offset >= end_offset:
            self._versions.pop()

    def forget_before(self, start_offset: int) -> None:
        """Let go of what nobody asks for any more: all before an offset, but the last that is in force there."""
        while len(self._sets) > 1 and self._sets[1].offset <= start_offset:
            del self._sets[0]
        while len(self._versions) > 1 and self._versions[1].offset <= start_offset:
            del self._versions[0]

    def replace(self, changes: Iterable[ControlChange]) -> None:
        """Begin anew with what an installed snapshot says."""
        self._sets.clear()
        self._versions.clear()
        self.add(changes)

"""A classic group as it lives: a rebalance in progress, who joins, who waits. Soft state, which dies with the shard.

The log has a group's members only from when their leader has assigned them something, so that a group which moves to
another node starts from its last full generation.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from kavka.coordinator.classic.embedded import PROTOCOL_TYPE, read_topics
from kavka.coordinator.classic.records import GroupMetadataValue, MemberMetadata
from kavka.coordinator.classic.state import ClassicGroup
from kavka.model.errors import FencedInstanceId, MalformedMessage, UnknownMemberId
from kavka.protocol.schemas.join_group import JoinGroupResponseMember

NO_TIMESTAMP: Final = -1


class GroupState(Enum):
    """The states of a classic group, as they are shown."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


class ParkedRequest(NamedTuple):
    """A parked request, and its API version."""

    token: Hashable
    api_version: int


Protocols = tuple[tuple[str, bytes], ...]
"""Names and metadata, the most wanted first."""


@dataclass(slots=True)
class LiveMember:
    """A member of a classic group."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    held: bytes = b""
    """The last assignment that the member was given, even if a rebalance has begun since."""
    is_new: bool = False
    """Still in its first join: nobody would notice if it went away, so it may time out while it waits."""

    def metadata(self, protocol: str | None) -> bytes:
        """What the member said for a protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        """The protocol that it likes best among some."""
        return next(name for name, _ in self.protocols if name in candidates)


@dataclass(slots=True)
class LiveGroup:
    """A classic group, its members and those who wait."""

    id: str
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.EMPTY
    state_since_ms: int = NO_TIMESTAMP
    protocol_type: str | None = None
    protocol: str | None = None
    generation: int = 0
    leader: str | None = None
    members: dict[str, LiveMember] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    supported: dict[str, int] = field(default_factory=dict)
    """How many members support each protocol."""
    pending: set[str] = field(default_factory=set)
    """Ids that were handed out (KIP-394) and have not joined yet."""
    joining: dict[str, ParkedRequest] = field(default_factory=dict)
    syncing: dict[str, ParkedRequest] = field(default_factory=dict)
    unsynced: set[str] = field(default_factory=set)
    """Members of this generation that have not asked for their assignment yet."""
    topics: frozenset[str] | None = None
    """The topics of all members; None when they are no consumers, or say something we cannot read."""
    grown: bool = False
    """Whether somebody joined since the delay of the first rebalance was last checked."""
    delay_ms: int = 0
    remaining_ms: int = 0

    @classmethod
    def of(cls, id_: str, stored: ClassicGroup) -> LiveGroup:
        """A group as its record left it."""
        value = stored.metadata
        if value is None:
            return cls(id_)
        group = cls(
            id_,
            state=GroupState.STABLE if value.members else GroupState.EMPTY,
            state_since_ms=value.current_state_timestamp,
            protocol_type=value.protocol_type or None,
            protocol=value.protocol,
            generation=value.generation,
            leader=value.leader,
        )
        for each in value.members:
            group.add(
                LiveMember(
                    id=each.member_id,
                    instance_id=each.group_instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    rebalance_timeout_ms=each.session_timeout if each.rebalance_timeout < 0 else each.rebalance_timeout,
                    session_timeout_ms=each.session_timeout,
                    protocols=((value.protocol or "", each.subscription),),
                    assignment=each.assignment,
                    held=each.assignment,
                ),
                value.protocol_type,
            )
        group.topics = group.subscribed_topics()
        return group

    # -- questions --------------------------------------------------------------------------------

    @property
    def is_consumers(self) -> bool:
        """Whether the members embed the consumer protocol."""
        return self.protocol_type == PROTOCOL_TYPE

    @property
    def all_joined(self) -> bool:
        """Whether nobody is missing."""
        return len(self.joining) == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest member may take."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def check_member(self, member_id: str, instance_id: str | None) -> LiveMember:
        """The member that makes a request; raises FencedInstanceId or UnknownMemberId."""
        if instance_id is not None:
            seated = self.static.get(instance_id)
            if seated is None:
                raise UnknownMemberId(f"no member of {self.id} has the instance id {instance_id}")
            if seated != member_id:
                raise FencedInstanceId(f"{member_id} is fenced: {seated} has the instance id {instance_id}")
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"{member_id} is no member of {self.id}")
        return member

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member with these protocols can be in the group."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        everyone = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.supported.get(name, 0) == everyone for name in protocols
        )

    def elect_protocol(self) -> str:
        """The protocol with most votes; of equals the first by name."""
        everyone = len(self.members)
        candidates = {name for name, number in self.supported.items() if number == everyone}
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return min(votes, key=lambda name: (-votes[name], name))

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics of all members together."""
        if not self.is_consumers or (self.members and self.protocol is None):
            return None
        try:
            return frozenset(
                topic for member in self.members.values() for topic in read_topics(member.metadata(self.protocol))
            )
        except MalformedMessage:
            return None

    def is_subscribed(self, topic: str) -> bool:
        """Whether some member wants a topic, as far as one can know."""
        return self.is_consumers if self.topics is None else topic in self.topics

    def for_leader(self) -> list[JoinGroupResponseMember]:
        """All members, as their leader is told of them."""
        return [
            JoinGroupResponseMember(
                member_id=member.id, group_instance_id=member.instance_id, metadata=member.metadata(self.protocol)
            )
            for member in self.members.values()
        ]

    def stored(self, assignments: dict[str, bytes]) -> GroupMetadataValue:
        """The group as its record shows it, with assignments by member."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=self.state_since_ms,
            members=[
                MemberMetadata(
                    member_id=member.id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol),
                    assignment=assignments.get(member.id, b""),
                )
                for member in self.members.values()
            ],
        )

    # -- changes ------------------------------------------------------------------------------------

    def enter(self, state: GroupState, now_ms: int) -> None:
        """Go over to a state."""
        self.previous_state = self.state
        self.state = state
        self.state_since_ms = now_ms

    def add(self, member: LiveMember, protocol_type: str) -> None:
        """A member is in; the first one brings the protocol type and leads."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.id
        self.members[member.id] = member
        self._count(member, 1)
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id
        self.pending.discard(member.id)

    def update(
        self, member: LiveMember, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """A member joins again, maybe with something else to say."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def remove(self, member_id: str) -> None:
        """A member, or one that was to become it, is out; the oldest of the rest leads if it led."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            if member.instance_id is not None:
                self.static.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending.discard(member_id)
        self.unsynced.discard(member_id)

    def replace(self, old_id: str, new_id: str) -> LiveMember:
        """A static member came back under another id; it sits where it sat."""
        member = self.members[old_id]
        member.id = new_id
        member.is_new = False
        self.members = {new_id if id_ == old_id else id_: each for id_, each in self.members.items()}
        if member.instance_id is not None:
            self.static[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.unsynced:
            self.unsynced.discard(old_id)
            self.unsynced.add(new_id)
        return member

    def elect_leader(self) -> bool:
        """Have a leader that has joined; False when nobody has."""
        if self.leader not in self.joining:
            joined = next((id_ for id_ in self.members if id_ in self.joining), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def next_generation(self, now_ms: int) -> None:
        """Begin the next generation with the members that are there."""
        self.generation += 1
        self.protocol = self.elect_protocol() if self.members else None
        self.topics = self.subscribed_topics()
        self.enter(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)
        self.unsynced.clear()

    def _count(self, member: LiveMember, step: int) -> None:
        for name in {name for name, _ in member.protocols}:
            self.supported[name] = self.supported.get(name, 0) + step
            if not self.supported[name]:
                del self.supported[name]

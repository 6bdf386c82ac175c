"""A decision about one streams group."""

from __future__ import annotations

from collections.abc import Mapping

from kavka.coordinator.change import GroupDraft
from kavka.coordinator.context import ShardContext
from kavka.coordinator.streams.assigning import Assigning
from kavka.coordinator.streams.entries import (
    current_entry,
    epoch_entry,
    member_entry,
    target_entry,
    target_epoch_entry,
    topology_entry,
    without_member,
)
from kavka.coordinator.streams.reconcile import Reconciliation
from kavka.coordinator.streams.state import Member, StreamsGroup
from kavka.coordinator.streams.tasks import TaskSets
from kavka.coordinator.streams.topology import ConfiguredTopology, StreamsTopology, configure, read_topology
from kavka.model.errors import InvalidRequest, UnknownServerError
from kavka.protocol.schemas.streams_group_heartbeat import Topology


class Configured:
    """The topology of a group with the topics as they are: soft state, until the topics differ."""

    __slots__ = ("metadata_hash", "topology")

    def __init__(self, context: ShardContext, topology: StreamsTopology) -> None:
        """Raises StreamsInvalidTopology."""
        self.metadata_hash = context.topics.hash_of(topology.required)
        self.topology: ConfiguredTopology = configure(topology, context.topics.count_of)


class StreamsChange(GroupDraft[StreamsGroup]):
    """The draft of a decision, and the group as it would leave it."""

    __slots__ = ("_context", "is_left")

    def __init__(self, context: ShardContext, group_id: str, group: StreamsGroup | None, now_ms: int) -> None:
        super().__init__(group_id, StreamsGroup() if group is None else group, now_ms, new=group is None)
        self._context = context
        self.is_left = False
        """Whether the assignment of this epoch is large, and worked out bit by bit."""

    # -- members and topology -----------------------------------------------------------------------

    def put_member(self, member: Member) -> bool:
        """Write what a member says of itself, if that is news; whether it is."""
        if self.group.members.get(member.id) == member:
            return False
        self.write([member_entry(self.group_id, member)])
        return True

    def remove_member(self, member_id: str) -> None:
        """Take a member out, and say so by the next epoch."""
        self.write(without_member(self.group_id, member_id))
        group = self.group
        self.next_epoch(group.metadata_hash, group.validated_topology_epoch, group.assignment_configs)

    def take_topology(self, said: Topology | None) -> StreamsTopology:
        """Go by the topology that the first member brings; raises InvalidRequest for another one of no lower epoch."""
        known = self.group.topology
        if said is not None:
            value = read_topology(said)
            if known is None:
                self.write([topology_entry(self.group_id, value)])
                known = self.group.topology
            elif known.epoch <= said.epoch and known != StreamsTopology(value):
                raise InvalidRequest("Topology updates are not supported yet.")
        if known is None:
            raise UnknownServerError("The topology is null and the group topology is also null.")
        return known

    # -- epochs and targets -------------------------------------------------------------------------

    def next_epoch(self, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]) -> None:
        """The group changed in what its assignment depends on."""
        epoch = self.group.epoch + 1
        self.write([epoch_entry(self.group_id, epoch, metadata_hash, validated_topology_epoch, configs)])

    def refresh(self, configured: Configured, configs: Mapping[str, str], *, changed: bool) -> None:
        """Go to the next epoch if the group changed, its topics, what they allow, or its settings did."""
        group = self.group
        assert group.topology is not None
        validated = group.topology.epoch if configured.topology.is_ready else -1
        stands_for = (group.metadata_hash, group.validated_topology_epoch, group.assignment_configs)
        if changed or stands_for != (configured.metadata_hash, validated, configs):
            self.next_epoch(configured.metadata_hash, validated, configs)

    def assign(self, configured: ConfiguredTopology) -> None:
        """Work out the target assignment of this epoch, or leave that to be done bit by bit."""
        assigning = Assigning(self.group, configured)
        self.is_left = assigning.is_large
        if not self.is_left:
            self.take_targets(assigning.go_on(None) or {})

    def take_targets(self, found: Mapping[str, TaskSets]) -> None:
        """Write the target assignment of this epoch; nobody has tasks while the topology is not ready."""
        self.put_targets(found, target_entry)
        self.write([target_epoch_entry(self.group_id, self.group.epoch, self.now_ms)])

    # -- reconciliation -----------------------------------------------------------------------------

    def reconcile(self, member: Member, target: TaskSets, owned: TaskSets | None) -> Member:
        """Move a member towards its target, as far as that goes now."""
        group = self.group
        if member.is_reconciled_to(group.assignment_epoch):
            return member
        moved = Reconciliation(group, group.assignment_epoch, target, owned).step(member)
        if moved != member:
            self.write([current_entry(self.group_id, moved)])
        return moved

"""The quorum's control records, written and read: who votes, and by which version of the protocol (KIP-853)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kavka.model.types import Endpoint
from kavka.protocol.schemas import control_records as schemas
from kavka.protocol.schemas.control_records import KRaftVersionFeature, KRaftVersionRecord, VotersRecord
from kavka.raft.voters import ControlChange, VoterSet
from kavka.raft.voters import ReplicaKey as ReplicaKey
from kavka.raft.voters import Voter as Voter
from kavka.records.batch import BatchInfo, Buffer, records
from kavka.records.control import QuorumMessage, parse_quorum_message


@dataclass(frozen=True, slots=True)
class ControlState:
    """The control records in force."""

    kraft_version: int = 0
    voters: tuple[Voter, ...] = ()

    def after(self, messages: Iterable[QuorumMessage]) -> ControlState:
        """The state once these records are in force too."""
        state = self
        for message in messages:
            if isinstance(message, KRaftVersionRecord):
                state = replace(state, kraft_version=message.kraft_version)
            elif isinstance(message, VotersRecord):
                state = replace(state, voters=tuple(_read(voter) for voter in message.voters))
        return state

    def messages(self) -> list[QuorumMessage]:
        """The state as control records; none before kraft.version 1, where the voters are configured."""
        if self.kraft_version == 0:
            return []
        return [kraft_version_record(self.kraft_version), voters_record(self.voters)]


def kraft_version_record(version: int) -> KRaftVersionRecord:
    """The record that names the version of the quorum's protocol."""
    return KRaftVersionRecord(version=0, kraft_version=version)


def voters_record(voters: Iterable[Voter]) -> VotersRecord:
    """The record that names the voters."""
    written = [
        schemas.Voter(
            voter_id=voter.key.id,
            voter_directory_id=voter.key.directory_id,
            endpoints=[
                schemas.Endpoint(name=endpoint.listener, host=endpoint.host, port=endpoint.port)
                for endpoint in voter.endpoints
            ],
            kraft_version_feature=KRaftVersionFeature(
                min_supported_version=voter.min_version, max_supported_version=voter.max_version
            ),
        )
        for voter in voters
    ]
    return VotersRecord(version=0, voters=written)


def _read(voter: schemas.Voter) -> Voter:
    # Voters' endpoints are written without a security protocol: the listener's name decides it.
    endpoints = tuple(Endpoint(endpoint.name, endpoint.host, endpoint.port, "") for endpoint in voter.endpoints)
    feature = voter.kraft_version_feature
    key = ReplicaKey(voter.voter_id, voter.voter_directory_id)
    return Voter(key, endpoints, feature.min_supported_version, feature.max_supported_version)


def changes_of(state: ControlState, offset: int) -> list[ControlChange]:
    """What a snapshot says, as of the last offset it contains; nothing where the voters are configured."""
    if state.kraft_version == 0:
        return []
    return [ControlChange(offset, VoterSet(state.voters), state.kraft_version)]


def change_of(offset: int, message: QuorumMessage) -> ControlChange | None:
    """What a control record changes; None if nothing."""
    if isinstance(message, KRaftVersionRecord):
        return ControlChange(offset, kraft_version=message.kraft_version)
    if isinstance(message, VotersRecord):
        return ControlChange(offset, VoterSet(map(_read, message.voters)))
    return None


def changes_in(data: Buffer, batch: BatchInfo) -> list[ControlChange]:
    """What the records of a control batch change."""
    found = ((record.offset, parse_quorum_message(record)) for record in records(data, batch))
    changes = (change_of(offset, message) for offset, message in found if message is not None)
    return [change for change in changes if change is not None]


def messages_in(data: Buffer, batch: BatchInfo) -> list[QuorumMessage]:
    """The quorum's messages in a control batch; those of a newer version are passed over."""
    found = (parse_quorum_message(record) for record in records(data, batch))
    return [message for message in found if message is not None]

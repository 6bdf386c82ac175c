"""Every Kafka error as an exception class: its code on the wire and whether a client may try again.

Code 0 means success and has no class. The names are those of Kafka's error constants.
"""
# ruff: noqa: N818  (Kafka's names are the contract, and few of them end in Error)

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


class KafkaError(Exception):
    """An error that the protocol has a code for; its docstring is the message when none is given."""

    code: ClassVar[int]
    retriable: ClassVar[bool]

    def __init_subclass__(cls, *, code: int, retriable: bool = False) -> None:
        cls.code = code
        cls.retriable = retriable

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message or self.__doc__ or type(self).__name__


class UnknownServerError(KafkaError, code=-1):
    """Something failed inside the server that no other code describes."""


class OffsetOutOfRange(KafkaError, code=1):
    """The offset lies before the log start or after the log end."""


class CorruptMessage(KafkaError, code=2, retriable=True):
    """The batch fails its CRC, has wrong sizes or cannot be read."""


class UnknownTopicOrPartition(KafkaError, code=3, retriable=True):
    """No such topic or partition on this node."""


class InvalidFetchSize(KafkaError, code=4):
    """A fetch asked for a size that makes no sense."""


class LeaderNotAvailable(KafkaError, code=5, retriable=True):
    """The partition has no leader at the moment."""


class NotLeaderOrFollower(KafkaError, code=6, retriable=True):
    """This node no longer leads (or holds) the partition."""


class RequestTimedOut(KafkaError, code=7, retriable=True):
    """The work was not finished within the request's timeout."""


class BrokerNotAvailable(KafkaError, code=8):
    """The broker is not there."""


class ReplicaNotAvailable(KafkaError, code=9, retriable=True):
    """The wanted replica is not there yet."""


class MessageTooLarge(KafkaError, code=10):
    """A batch is larger than max.message.bytes."""


class StaleControllerEpoch(KafkaError, code=11):
    """The sender speaks for an older controller."""


class OffsetMetadataTooLarge(KafkaError, code=12):
    """The text kept with a committed offset is too long."""


class NetworkException(KafkaError, code=13, retriable=True):
    """The connection broke before the answer came."""


class CoordinatorLoadInProgress(KafkaError, code=14, retriable=True):
    """The coordinator still reads its partition."""


class CoordinatorNotAvailable(KafkaError, code=15, retriable=True):
    """There is no coordinator at the moment."""


class NotCoordinator(KafkaError, code=16, retriable=True):
    """Another node coordinates this id."""


class InvalidTopicException(KafkaError, code=17):
    """The topic's name is not allowed, or not for this operation."""


class RecordListTooLarge(KafkaError, code=18):
    """A batch is larger than a whole segment may be."""


class NotEnoughReplicas(KafkaError, code=19, retriable=True):
    """Fewer replicas are in sync than min.insync.replicas wants; nothing was written."""


class NotEnoughReplicasAfterAppend(KafkaError, code=20, retriable=True):
    """The records were written, but fewer replicas are in sync than wanted."""


class InvalidRequiredAcks(KafkaError, code=21):
    """acks is none of -1, 0 and 1."""


class IllegalGeneration(KafkaError, code=22):
    """The member speaks of another generation of its group."""


class InconsistentGroupProtocol(KafkaError, code=23):
    """The member's protocols do not fit those of its group."""


class InvalidGroupId(KafkaError, code=24):
    """A group may not have this id."""


class UnknownMemberId(KafkaError, code=25):
    """The group has no such member."""


class InvalidSessionTimeout(KafkaError, code=26):
    """The session timeout is outside of the broker's bounds."""


class RebalanceInProgress(KafkaError, code=27):
    """The group is rebalancing; its members must join again."""


class InvalidCommitOffsetSize(KafkaError, code=28):
    """The offsets to commit do not fit into one batch."""


class TopicAuthorizationFailed(KafkaError, code=29):
    """The principal may not do this to the topic."""


class GroupAuthorizationFailed(KafkaError, code=30):
    """The principal may not do this to the group."""


class ClusterAuthorizationFailed(KafkaError, code=31):
    """The principal may not do this to the cluster."""


class InvalidTimestamp(KafkaError, code=32):
    """A record's timestamp is too far from the broker's clock."""


class UnsupportedSaslMechanism(KafkaError, code=33):
    """The listener does not offer this SASL mechanism."""


class IllegalSaslState(KafkaError, code=34):
    """The request does not fit this step of the SASL exchange."""


class UnsupportedVersion(KafkaError, code=35):
    """The version of this API, or a field at this version, is unknown here."""


class TopicAlreadyExists(KafkaError, code=36):
    """There is a topic with this name."""


class InvalidPartitions(KafkaError, code=37):
    """The number of partitions is not possible."""


class InvalidReplicationFactor(KafkaError, code=38):
    """The replication factor is not possible with these brokers."""


class InvalidReplicaAssignment(KafkaError, code=39):
    """The replicas given by hand cannot be used."""


class InvalidConfig(KafkaError, code=40):
    """A config name or value was refused."""


class NotController(KafkaError, code=41, retriable=True):
    """Another node is the active controller."""


class InvalidRequest(KafkaError, code=42):
    """The request contradicts itself or the protocol."""


class UnsupportedForMessageFormat(KafkaError, code=43):
    """The format of the stored batches cannot do this."""


class PolicyViolation(KafkaError, code=44):
    """A policy of this cluster forbids the change."""


class OutOfOrderSequenceNumber(KafkaError, code=45):
    """A producer's sequence does not follow its last one."""


class DuplicateSequenceNumber(KafkaError, code=46):
    """A producer's sequence was written before."""


class InvalidProducerEpoch(KafkaError, code=47):
    """A newer incarnation of the producer exists."""


class InvalidTxnState(KafkaError, code=48):
    """The transaction is in no state for this step."""


class InvalidProducerIdMapping(KafkaError, code=49):
    """The producer id belongs to another transactional id."""


class InvalidTransactionTimeout(KafkaError, code=50):
    """The transaction timeout is above transaction.max.timeout.ms."""


class ConcurrentTransactions(KafkaError, code=51, retriable=True):
    """The previous step of this transaction is not finished."""


class TransactionCoordinatorFenced(KafkaError, code=52):
    """The marker comes from a former transaction coordinator."""


class TransactionalIdAuthorizationFailed(KafkaError, code=53):
    """The principal may not use this transactional id."""


class SecurityDisabled(KafkaError, code=54):
    """No authorizer runs on this cluster."""


class OperationNotAttempted(KafkaError, code=55):
    """Another part of the request failed, so this one was not tried."""


class KafkaStorageError(KafkaError, code=56, retriable=True):
    """A log directory cannot be read or written."""


class LogDirNotFound(KafkaError, code=57):
    """The node has no such log directory."""


class SaslAuthenticationFailed(KafkaError, code=58):
    """The credentials were refused."""


class UnknownProducerId(KafkaError, code=59):
    """Nothing is known of this producer in this partition."""


class ReassignmentInProgress(KafkaError, code=60):
    """The partition is being moved."""


class DelegationTokenAuthDisabled(KafkaError, code=61):
    """Delegation tokens are switched off."""


class DelegationTokenNotFound(KafkaError, code=62):
    """There is no such delegation token."""


class DelegationTokenOwnerMismatch(KafkaError, code=63):
    """The principal neither owns nor may renew the token."""


class DelegationTokenRequestNotAllowed(KafkaError, code=64):
    """Tokens are not handed out over a connection authenticated this way."""


class DelegationTokenAuthorizationFailed(KafkaError, code=65):
    """The principal may not use this token."""


class DelegationTokenExpired(KafkaError, code=66):
    """The token's time is over."""


class InvalidPrincipalType(KafkaError, code=67):
    """Principals of this type are not known."""


class NonEmptyGroup(KafkaError, code=68):
    """The group has members."""


class GroupIdNotFound(KafkaError, code=69):
    """There is no such group."""


class FetchSessionIdNotFound(KafkaError, code=70, retriable=True):
    """The fetch session is gone."""


class InvalidFetchSessionEpoch(KafkaError, code=71, retriable=True):
    """The fetch session expected another epoch."""


class ListenerNotFound(KafkaError, code=72, retriable=True):
    """The leader has no listener of the name that the client came by."""


class TopicDeletionDisabled(KafkaError, code=73):
    """delete.topic.enable is off."""


class FencedLeaderEpoch(KafkaError, code=74, retriable=True):
    """The sender knows an older leader epoch than this node."""


class UnknownLeaderEpoch(KafkaError, code=75, retriable=True):
    """The sender knows a newer leader epoch than this node."""


class UnsupportedCompressionType(KafkaError, code=76):
    """This version of the API cannot carry the batch's codec."""


class StaleBrokerEpoch(KafkaError, code=77):
    """The broker has registered again since."""


class OffsetNotAvailable(KafkaError, code=78, retriable=True):
    """A new leader does not know its high watermark yet."""


class MemberIdRequired(KafkaError, code=79):
    """Join again with the member id given in this answer."""


class PreferredLeaderNotAvailable(KafkaError, code=80, retriable=True):
    """The preferred leader cannot lead now."""


class GroupMaxSizeReached(KafkaError, code=81):
    """The group is full."""


class FencedInstanceId(KafkaError, code=82):
    """Another member took over this static seat."""


class EligibleLeadersNotAvailable(KafkaError, code=83, retriable=True):
    """No replica may become the leader now."""


class ElectionNotNeeded(KafkaError, code=84, retriable=True):
    """The wanted leader leads already."""


class NoReassignmentInProgress(KafkaError, code=85):
    """The partition is not being moved."""


class GroupSubscribedToTopic(KafkaError, code=86):
    """The group still reads the topic whose offsets were to go."""


class InvalidRecord(KafkaError, code=87):
    """A record breaks a rule of its topic or of the format."""


class UnstableOffsetCommit(KafkaError, code=88, retriable=True):
    """Offsets of an open transaction are pending."""


class ThrottlingQuotaExceeded(KafkaError, code=89, retriable=True):
    """The quota for changes is used up for now."""


class ProducerFenced(KafkaError, code=90):
    """A newer producer has this transactional id."""


class ResourceNotFound(KafkaError, code=91):
    """The named resource is not there."""


class DuplicateResource(KafkaError, code=92):
    """The request names one resource twice."""


class UnacceptableCredential(KafkaError, code=93):
    """The new credential breaks a rule for credentials."""


class InconsistentVoterSet(KafkaError, code=94):
    """Sender and receiver know different voters."""


class InvalidUpdateVersion(KafkaError, code=95):
    """The state was changed from another version than the expected one."""


class FeatureUpdateFailed(KafkaError, code=96):
    """The feature levels could not be changed."""


class PrincipalDeserializationFailure(KafkaError, code=97):
    """The principal inside of a forwarded request cannot be read."""


class SnapshotNotFound(KafkaError, code=98):
    """There is no such snapshot."""


class PositionOutOfRange(KafkaError, code=99):
    """The position lies outside of the snapshot."""


class UnknownTopicId(KafkaError, code=100, retriable=True):
    """No topic has this id here."""


class DuplicateBrokerRegistration(KafkaError, code=101):
    """A living broker has this id."""


class BrokerIdNotRegistered(KafkaError, code=102):
    """No broker of this id is registered."""


class InconsistentTopicId(KafkaError, code=103, retriable=True):
    """The log belongs to another topic id."""


class InconsistentClusterId(KafkaError, code=104):
    """The sender belongs to another cluster."""


class TransactionalIdNotFound(KafkaError, code=105):
    """Nothing is known of this transactional id."""


class FetchSessionTopicIdError(KafkaError, code=106, retriable=True):
    """The fetch session mixes topic names and topic ids."""


class IneligibleReplica(KafkaError, code=107):
    """The new in-sync set holds a replica that may not be in it."""


class NewLeaderElected(KafkaError, code=108):
    """The change was made, and it moved the leadership."""


class OffsetMovedToTieredStorage(KafkaError, code=109):
    """The offset is only in remote storage now."""


class FencedMemberEpoch(KafkaError, code=110):
    """The member's epoch is over; it gives up its partitions and joins anew."""


class UnreleasedInstanceId(KafkaError, code=111):
    """Another member still sits on this static seat."""


class UnsupportedAssignor(KafkaError, code=112):
    """The group has no such assignor."""


class StaleMemberEpoch(KafkaError, code=113):
    """The member must learn its new epoch by a heartbeat first."""


class MismatchedEndpointType(KafkaError, code=114):
    """The request belongs to the other kind of listener."""


class UnsupportedEndpointType(KafkaError, code=115):
    """This kind of listener is not known."""


class UnknownControllerId(KafkaError, code=116):
    """There is no controller with this id."""


class UnknownSubscriptionId(KafkaError, code=117):
    """The telemetry subscription is wrong or outdated."""


class TelemetryTooLarge(KafkaError, code=118):
    """The pushed telemetry is larger than allowed."""


class InvalidRegistration(KafkaError, code=119):
    """The controller refuses the registration."""


class TransactionAbortable(KafkaError, code=120):
    """The transaction must be aborted; its id stays usable."""


class InvalidRecordState(KafkaError, code=121):
    """The record is in no state for this acknowledgement."""


class ShareSessionNotFound(KafkaError, code=122, retriable=True):
    """The share session is gone."""


class InvalidShareSessionEpoch(KafkaError, code=123, retriable=True):
    """The share session expected another epoch."""


class FencedStateEpoch(KafkaError, code=124):
    """The share partition's state has a newer epoch."""


class InvalidVoterKey(KafkaError, code=125):
    """The request is meant for another voter (id and directory)."""


class DuplicateVoter(KafkaError, code=126):
    """The voter set has this voter already."""


class VoterNotFound(KafkaError, code=127):
    """The voter set has no such voter."""


class InvalidRegularExpression(KafkaError, code=128):
    """The pattern cannot be compiled."""


class RebootstrapRequired(KafkaError, code=129):
    """The client's metadata is too old; it starts over from its bootstrap servers."""


class StreamsInvalidTopology(KafkaError, code=130):
    """The streams topology contradicts itself."""


class StreamsInvalidTopologyEpoch(KafkaError, code=131):
    """The streams topology's epoch is not possible."""


class StreamsTopologyFenced(KafkaError, code=132):
    """The group has a newer streams topology."""


class ShareSessionLimitReached(KafkaError, code=133, retriable=True):
    """This node holds as many share sessions as it may."""


BY_CODE: Mapping[int, type[KafkaError]] = {cls.code: cls for cls in KafkaError.__subclasses__()}


class MalformedMessage(InvalidRequest, code=InvalidRequest.code):
    """The bytes are not a message of the expected schema."""


def code_of(error: BaseException) -> int:
    """The code that tells a peer about this error: -1 for anything the protocol has no word for."""
    return error.code if isinstance(error, KafkaError) else UnknownServerError.code


def error_class(code: int) -> type[KafkaError]:
    """The exception class for an error code; UnknownServerError for one we have no name for."""
    return BY_CODE.get(code, UnknownServerError)


def error_for(code: int, message: str | None = None) -> KafkaError:
    """The exception for an error code that somebody answered with."""
    return error_class(code)(message or "")


def raise_for(code: int, message: str | None = None) -> None:
    """Raise the error that a code stands for; 0 is success."""
    if code:
        raise error_for(code, message)

"""The controller: decides every change of the cluster's metadata, on its own image of it.

Deciding methods read and return; `replay` is the only method that writes durable state, and the image is all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from kavka.controller import acls, features, producer_ids, quotas, scram
from kavka.controller.bootstrap import activation_records
from kavka.controller.brokers import (
    BrokerRequest,
    Brokers,
    ControllerRequest,
    Heartbeat,
    HeartbeatReply,
)
from kavka.controller.configs import Configs, IncrementalChanges, Outcomes
from kavka.controller.contacts import BrokerContacts
from kavka.controller.directories import Directories, InDirectory
from kavka.controller.effective import Effective
from kavka.controller.elections import Elections, TopicOutcomes
from kavka.controller.features import FeatureUpdate
from kavka.controller.index import PartitionIndex
from kavka.controller.isr import InSyncReplicas, IsrRequest
from kavka.controller.periodic import Periodic
from kavka.controller.placement import Draw
from kavka.controller.producer_ids import ProducerIdBlock
from kavka.controller.reassignment import Moving, Reassign, Reassignments
from kavka.controller.recovery import Key, LogInfo
from kavka.controller.registration import Registrations
from kavka.controller.tokens import Token, TokenRules, Tokens
from kavka.controller.topics import Charge, CreatedTopic, NewPartitions, NewTopic, Topics
from kavka.metadata.access import AccessRules
from kavka.metadata.delta import MetadataDelta, apply
from kavka.metadata.image import EMPTY, ConfigResource, MetadataImage, PartitionImage
from kavka.model.errors import KafkaError
from kavka.model.settings import BROKER_SESSION_TIMEOUT_MS, Values
from kavka.model.settings.security import (
    DELEGATION_TOKEN_EXPIRY_TIME_MS,
    DELEGATION_TOKEN_MAX_LIFETIME_MS,
)
from kavka.model.transition import Transition
from kavka.model.types import Uuid
from kavka.security.acl import Acl, AclFilter
from kavka.security.token import TokenSecrets


class Controller:
    """The metadata machine of one node; only the quorum's leader asks it to decide."""

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        static: Values,
        *,
        draw: Draw,
        new_id: Callable[[], Uuid],
        kraft_version: int = 1,
    ) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.kraft_version = kraft_version
        self.image: MetadataImage = EMPTY
        self.contacts = BrokerContacts(static[BROKER_SESSION_TIMEOUT_MS])
        self._effective = Effective(node_id, static)
        self._index = PartitionIndex()
        self._registrations = Registrations(cluster_id, self._effective, self.contacts, self._index)
        self._brokers = Brokers(self._effective, self.contacts, self._index)
        self._in_sync = InSyncReplicas(self._effective, self._index)
        self._elections = Elections(self._effective, self._index)
        self._reassignments = Reassignments(self._effective, self._index)
        self._directories = Directories(self._effective, self._index)
        self._new_id = new_id
        self._rules = AccessRules()
        token_rules = TokenRules(
            TokenSecrets.of(static),
            static[DELEGATION_TOKEN_MAX_LIFETIME_MS],
            static[DELEGATION_TOKEN_EXPIRY_TIME_MS],
        )
        self._tokens = Tokens(token_rules, new_id)
        self._periodic = Periodic(static, self._elections, self._tokens)
        self._configs = Configs(self._effective)
        self._topics = Topics(self._effective, self._configs, draw, new_id)

    def replay(self, records: Iterable[Any], offset: int, epoch: int) -> MetadataDelta:
        """Take in records of which the last is at an offset; says what they changed."""
        before = self.image.topics
        self.image, delta = apply(self.image, records, offset, epoch)
        self._index.follow(before, self.image.topics, delta)
        return delta

    def activate(self, bootstrap: Sequence[Any], now_ms: int, former_leader: int = -1) -> Transition[None]:
        """Begin to lead: write what a new cluster starts with, or end what another leader left open.

        The broker on the node of the former leader, if that is known, has to be heard sooner than the others.
        """
        self.contacts.activate(self.image.cluster, now_ms, self.node_id, former_leader)
        self._periodic.activate(now_ms)
        return Transition(None, activation_records(self.image, bootstrap, self._effective))

    # -- time -------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int:
        """When `tick` has something to do, as far as is known now; only for an active controller.

        Any decision may move it, forth or back: ask again after each.
        """
        silent = self.contacts.next_deadline_ms()
        periodic = self._periodic.next_deadline_ms()
        return periodic if silent is None else min(silent, periodic)

    def tick(self, now_ms: int) -> Transition[None]:
        """Do the next thing that is due, if any: fence a silent broker, move leaders, elect where that is allowed.

        One thing at a time: when more is due, `next_deadline_ms` stays in the past and `tick` is called again.
        """
        return Transition(None, self._brokers.fence_stale(self.image, now_ms) or self._periodic.run(self.image, now_ms))

    # -- topics -----------------------------------------------------------------------------------

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, charge: Charge | None = None
    ) -> Transition[dict[str, CreatedTopic | KafkaError]]:
        """Create topics of distinct names."""
        return self._topics.create(self.image, topics, validate_only, charge)

    def delete_topics(
        self, ids: Sequence[Uuid], *, charge: Charge | None = None
    ) -> Transition[dict[Uuid, KafkaError | None]]:
        """Delete topics."""
        return self._topics.delete(self.image, ids, charge)

    def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False, charge: Charge | None = None
    ) -> Transition[dict[str, KafkaError | None]]:
        """Give topics of distinct names more partitions."""
        return self._topics.create_partitions(self.image, topics, validate_only, charge)

    # -- partitions ---------------------------------------------------------------------------------

    def alter_partition(
        self, broker_id: int, broker_epoch: int, requests: Sequence[IsrRequest]
    ) -> Transition[list[PartitionImage | KafkaError]]:
        """Change the in-sync replicas of partitions that a broker leads; an outcome for each, in order."""
        self.contacts.back(broker_id, broker_epoch)
        return self._in_sync.alter(self.image, broker_id, broker_epoch, requests)

    def elect_leaders(
        self, election_type: int, partitions: Sequence[tuple[str, Sequence[int]]] | None
    ) -> Transition[TopicOutcomes]:
        """Elect preferred or unclean leaders, of some partitions or (None) of all."""
        return self._elections.elect(self.image, election_type, partitions)

    def recovery_questions(self, asked_for: Collection[Key], now_ms: int) -> Transition[dict[int, list[Key]] | None]:
        """Whom to ask how far their replicas are, where the longest log shall lead (KIP-966); None for nowhere."""
        return Transition(self._elections.recovery_questions(self.image, asked_for, now_ms))

    def recover(self, answers: Mapping[int, Mapping[Key, LogInfo]], now_ms: int) -> Transition[None]:
        """Elect leaders by how far replicas are, as brokers have told."""
        return Transition(None, self._elections.recover(self.image, answers, now_ms))

    def alter_reassignments(
        self, wanted: Sequence[Reassign], *, allow_replication_change: bool = True
    ) -> Transition[list[KafkaError | None]]:
        """Start, change or cancel reassignments of partitions; an outcome for each, in order."""
        return self._reassignments.alter(self.image, wanted, allow_replication_change)

    def list_reassignments(self, partitions: Sequence[tuple[str, Sequence[int]]] | None) -> Transition[Moving]:
        """The reassignments under way, of some partitions or (None) of all."""
        return Transition(self._reassignments.list(self.image, partitions))

    def assign_replicas_to_dirs(
        self, broker_id: int, broker_epoch: int, replicas: Sequence[InDirectory]
    ) -> Transition[list[KafkaError | None]]:
        """Remember in which directories a broker has its replicas; an outcome for each, in order."""
        self.contacts.back(broker_id, broker_epoch)
        return self._directories.assign(self.image, broker_id, broker_epoch, replicas)

    # -- settings -----------------------------------------------------------------------------------

    def alter_configs(
        self, wanted: Mapping[ConfigResource, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> Transition[Outcomes]:
        """Replace the whole configuration of resources."""
        return self._configs.alter(self.image, wanted, validate_only)

    def incremental_alter_configs(
        self, changes: IncrementalChanges, *, validate_only: bool = False
    ) -> Transition[Outcomes]:
        """Change single keys of resources."""
        return self._configs.alter_incrementally(self.image, changes, validate_only)

    def update_features(
        self,
        updates: Mapping[str, FeatureUpdate],
        *,
        validate_only: bool = False,
        upgrade_quorum: features.UpgradeQuorum | None = None,
    ) -> Transition[None]:
        """Finalize other levels of features; raises InvalidUpdateVersion."""
        return features.update(self.image, self._effective, self.kraft_version, updates, validate_only, upgrade_quorum)

    # -- security -----------------------------------------------------------------------------------

    def create_acls(self, wanted: Sequence[Acl]) -> Transition[list[KafkaError | None]]:
        """Create ACLs; an outcome for each, in order."""
        self._rules.follow(self.image)
        return acls.create(self._rules.acls, wanted, self._new_id)

    def delete_acls(self, filters: Sequence[AclFilter]) -> Transition[list[list[Acl] | KafkaError]]:
        """Delete ACLs; for each filter those that it matched, in order."""
        return acls.delete(self.image, filters)

    def alter_scram_credentials(
        self, deletions: Sequence[scram.Deletion], upsertions: Sequence[scram.Upsertion]
    ) -> Transition[dict[str, KafkaError | None]]:
        """Set and remove SCRAM credentials; an outcome for each user."""
        return scram.alter(self.image, deletions, upsertions)

    def alter_client_quotas(
        self, wanted: Sequence[quotas.Alteration], *, hosts: Collection[str] = (), validate_only: bool = False
    ) -> Transition[list[KafkaError | None]]:
        """Set and remove client quotas; an outcome for each entity, in order."""
        return quotas.alter(self.image, wanted, hosts=hosts, validate_only=validate_only)

    def create_token(
        self, requester: str, owner: str, renewers: Sequence[str], max_lifetime_ms: int, now_ms: int
    ) -> Transition[Token]:
        """Hand out a delegation token."""
        return self._tokens.create(self.image, requester, owner, renewers, max_lifetime_ms, now_ms)

    def renew_token(self, by: str, hmac: bytes, period_ms: int, now_ms: int) -> Transition[int]:
        """Renew a delegation token; the reply is when it expires."""
        return self._tokens.renew(self.image, by, hmac, period_ms, now_ms)

    def expire_token(self, by: str, hmac: bytes, period_ms: int, now_ms: int) -> Transition[int]:
        """End a delegation token; the reply is when."""
        return self._tokens.expire(self.image, by, hmac, period_ms, now_ms)

    # -- nodes ----------------------------------------------------------------------------------------

    def register_broker(self, request: BrokerRequest, now_ms: int) -> Transition[int]:
        """Register a broker; the reply is its epoch."""
        return self._registrations.register(self.image, request, self.kraft_version, now_ms)

    def register_controller(self, request: ControllerRequest) -> Transition[None]:
        """Register a controller."""
        return self._registrations.register_controller(self.image, request)

    def heartbeat(self, beat: Heartbeat, now_ms: int) -> Transition[HeartbeatReply]:
        """Hear from a broker."""
        return self._brokers.heartbeat(self.image, beat, now_ms)

    def broker_disconnected(self, broker_id: int, epoch: int, now_ms: int, connection: int = -1) -> Transition[None]:
        """The connection that a broker's heartbeats came on has closed: unless it is heard soon, it is fenced early.

        Unknown brokers, other epochs, and connections other than that of the latest heartbeat are passed over.
        """
        self.contacts.lost(broker_id, epoch, now_ms, connection)
        return Transition(None)

    def unregister_broker(self, broker_id: int) -> Transition[None]:
        """Forget a broker; raises BrokerIdNotRegistered."""
        return self._brokers.unregister(self.image, broker_id)

    def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> Transition[ProducerIdBlock]:
        """A block of producer ids for a broker."""
        self.contacts.back(broker_id, broker_epoch)
        return producer_ids.allocate(self.image, broker_id, broker_epoch)

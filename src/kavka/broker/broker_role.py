"""A node's part as a broker: its replicas and coordinators, the listeners of its clients, its life in the cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from kavka.broker.client_telemetry import ClientTelemetry
from kavka.broker.collecting import Collecting
from kavka.broker.config import NodeConfig, metrics_are_seen
from kavka.broker.controller_role import ControllerRole
from kavka.broker.coordinating import Coordinating
from kavka.broker.dispatch import Dispatcher, HotHandler
from kavka.broker.forwarding import Forwarding, Handler
from kavka.broker.gate import Gate
from kavka.broker.handlers import HANDLERS
from kavka.broker.handlers.fetch import FetchHandler
from kavka.broker.handlers.produce import ProduceHandler
from kavka.broker.limits import connection_limits, frame_caps, socket_options
from kavka.broker.live_listeners import Bind, LiveListeners
from kavka.broker.metrics import (
    LoopWatch,
    show_connections,
    show_coordinators,
    show_isr,
    show_lag,
    show_quotas,
    show_replicas,
    show_requests,
    show_share_groups,
)
from kavka.broker.partition_metrics import show_partitions
from kavka.broker.ports import Ports
from kavka.broker.quotas import Quotas
from kavka.broker.spreading import Spreading
from kavka.broker.throttling import ReadMeter
from kavka.client.connector import Connector
from kavka.metadata.delta import between
from kavka.metadata.image import MetadataImage
from kavka.metadata.live import LiveSettings
from kavka.model.clock import Clock
from kavka.model.settings import (
    BROKER_HEARTBEAT_INTERVAL_MS,
    BROKER_SESSION_TIMEOUT_MS,
    CONTROLLED_SHUTDOWN_ENABLE,
    FETCH_MAX_BYTES,
    INITIAL_BROKER_REGISTRATION_TIMEOUT_MS,
    KAVKA_AUDIT_TOPIC_ENABLE,
    KAVKA_METRICS_DETAIL,
    LOG_DIR_FAILURE_TIMEOUT_MS,
    MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS,
    REQUEST_TIMEOUT_MS,
    TELEMETRY_MAX_BYTES,
    Values,
)
from kavka.model.types import Endpoint
from kavka.net.connection import Receiver
from kavka.net.limits import ConnectionLimits
from kavka.net.server import BoundListener, Server
from kavka.pacing.turn import Turn
from kavka.protocol.registry import ApiKey
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.internal_topics import InternalTopic, create_if_missing
from kavka.quorum.lifecycle import BrokerLifecycle
from kavka.quorum.producer_ids import AllocateProducerIds, ProducerIds
from kavka.quorum.registration import Registration, register_node
from kavka.quorum.requested_topics import RequestedTopics
from kavka.quorum.topic_creation import TopicCreation
from kavka.replica.cleaner import Cleaner
from kavka.replica.dirs import cordoned_ids, offline_ids
from kavka.replica.fetching import FetchSessions
from kavka.replica.housekeeping import Housekeeping
from kavka.replica.loading import Loading
from kavka.replica.manager import ReplicaManager
from kavka.replica.syncing import Syncer
from kavka.replica.waiting import Purgatory
from kavka.runtime.broker_channels import BrokerChannels
from kavka.telemetry.client_metrics import ClientMetrics
from kavka.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from kavka.broker.auditing import Audit
    from kavka.broker.replicating import Replicating
    from kavka.broker.tiering import Tending, Tiering
    from kavka.runtime.coordinators import Make
    from kavka.runtime.group_lag import GroupLag
    from kavka.runtime.registry import RegistryService

logger = logging.getLogger(__name__)

T = TypeVar("T")

SESSION_EVICTION_MS: Final = 120_000
MAX_SESSION_ID: Final = 2**31 - 1
DRAIN_MS: Final = 2_000
LEAVE_SECONDS: Final = 60.0
"""How long a controlled shutdown may take."""


class Service(Protocol):
    """What runs until it is cancelled."""

    async def run(self) -> None:
        """Run."""


class BrokerEnvironment(NamedTuple):
    """What a broker is given by its node."""

    config: NodeConfig
    settings: LiveSettings
    controller: ControllerLoop
    quorum: ControllerRole
    tasks: asyncio.TaskGroup
    clock: Clock
    inter_broker: Connector
    metrics: Metrics
    coordinators: Sequence[Make]
    gate: Gate
    quotas: Quotas
    bind: Bind
    when_secured: Callable[[Callable[[], None]], None]
    ports: Ports
    tiering: Tiering | None = None
    audit: Audit | None = None
    traced: Callable[[Receiver], Receiver] | None = None
    """Stands before the dispatcher where requests are traced."""


class BrokerRole:
    """A broker, from what lies on its disks to what its clients are served; made once per start."""

    def __init__(
        self,
        node: BrokerEnvironment,
        replicas: ReplicaManager,
        loading: Loading,
        listeners: list[BoundListener],
        registration: Registration,
    ) -> None:
        self._node = node
        self._replicas = replicas
        self._loading = loading
        self._registration = registration
        self._syncer = Syncer(asyncio.get_running_loop())
        self._cleaner = Cleaner(replicas, node.clock, node.ports.compact)
        node.settings.subscribe(self._cleaner.follow)
        self._sessions = fetch_sessions(node.config.values, node.ports.chance.randint)
        self._asking = None if node.config.standalone else node.quorum.channel(node.config.values[REQUEST_TIMEOUT_MS])
        self._producer_ids = self._number_producers()
        self._others = self._reach_others()
        self._creation = TopicCreation(node.controller, self._asking)
        self._requested = RequestedTopics(self._creation, node.clock)
        self._coordinating = Coordinating(
            replicas,
            node.settings,
            self._syncer,
            node.clock,
            node.ports.new_id,
            self._producer_ids.next,
            self._others.ask,
            self._create_internal,
            node.coordinators,
        )
        self._running: list[asyncio.Task[None]] = []
        self._forwarding: asyncio.Task[None] | None = None
        """What writes the audit log to a topic: a client of this node, which ends before the node serves no more."""
        self._alone = node.config.standalone
        self._lifecycle = self._join()
        replicas.on_loss(self._lifecycle.wake)
        self._replicating = None if self._alone else self._replicate()
        self._tending = self._tend(node.tiering) if node.tiering is not None else None
        self._lag = self._watch_lag() if metrics_are_seen(node.config.values) else None
        self._telemetry = ClientTelemetry(
            ClientMetrics(node.config.values[TELEMETRY_MAX_BYTES], node.ports.new_id), node.controller
        )
        self._dispatcher = self._dispatch()
        if node.tiering is not None:
            node.tiering.tiers.seat.beside(self._dispatcher.served)
        self._server = self._serve(listeners)
        self._listening = LiveListeners(self._server, listeners, node.bind)
        node.quotas.subscribe(lambda quotas: self._server.limit(self._limits()))
        self.epoch = -1
        """The broker epoch of this start; -1 until it is registered."""
        self.loaded = False
        """Whether all logs are loaded: only then may the node mark a clean shutdown."""

    # -- putting together -----------------------------------------------------------------------

    def _limits(self) -> ConnectionLimits:
        node = self._node
        return connection_limits(
            node.settings.values, self._listening.names, node.config.inter_broker_listener, node.quotas
        )

    def _join(self) -> BrokerLifecycle:
        values, replicas = self._node.config.values, self._replicas
        return BrokerLifecycle(
            self._node.controller,
            self._node.quorum.channel(values[REQUEST_TIMEOUT_MS]),
            self._registration,
            heartbeat_ms=values[BROKER_HEARTBEAT_INTERVAL_MS],
            session_ms=values[BROKER_SESSION_TIMEOUT_MS],
            registration_timeout_ms=values[INITIAL_BROKER_REGISTRATION_TIMEOUT_MS],
            failure_timeout_ms=values[LOG_DIR_FAILURE_TIMEOUT_MS],
            offline=lambda: offline_ids(replicas.dirs),
            cordoned=lambda: cordoned_ids(replicas.dirs),
        )

    def _number_producers(self) -> ProducerIds:
        controller, channel = self._node.controller, self._asking
        if channel is None:
            return ProducerIds(controller)
        return ProducerIds(controller, AllocateProducerIds(controller.node_id, lambda: self.epoch, channel))

    def _reach_others(self) -> BrokerChannels:
        node = self._node
        return BrokerChannels(
            lambda: node.controller.image,
            node.config.inter_broker_listener,
            node.inter_broker,
            timeout_ms=node.config.values[REQUEST_TIMEOUT_MS],
        )

    async def _create_internal(self, topic: InternalTopic) -> None:
        await create_if_missing(self._creation, topic, self._node.settings.values)

    def _replicate(self) -> Replicating:
        from kavka.broker.replicating import Replicating  # a node that is alone starts faster without

        node = self._node
        return Replicating(
            self._replicas,
            self._syncer,
            node.inter_broker,
            node.clock,
            node.quorum.channel(node.config.values[REQUEST_TIMEOUT_MS]),
            listener=node.config.inter_broker_listener,
            broker_epoch=lambda: self.epoch,
            leaving=lambda: self._lifecycle.leaving,
        )

    def _between_disks(self) -> list[Service]:
        """What several log directories take: moving replicas between them, and telling the controller of that."""
        from kavka.replica.assign_dirs import AssignReplicas  # a node with one directory starts faster without
        from kavka.replica.moving import Moving
        from kavka.replica.placing import Placing

        node, replicas = self._node, self._replicas
        channel = node.quorum.channel(node.config.values[REQUEST_TIMEOUT_MS])
        assign = AssignReplicas(replicas.node_id, lambda: self.epoch, channel)
        moving = Moving(replicas, self._syncer, assign, node.clock)
        return [moving, Placing(replicas, assign)] if self._alone else [moving]

    def _here(self) -> list[Endpoint]:
        """Where this broker is reached by others like it."""
        listener = self._node.config.inter_broker_listener
        return [endpoint for endpoint in self._registration.endpoints if endpoint.listener == listener]

    def _serve(self, listeners: list[BoundListener]) -> Server:
        node = self._node
        node.quotas.subscribe(self._dispatcher.hold_against)
        meter = ReadMeter(node.quotas)
        node.quotas.subscribe(meter.follow)
        options = socket_options(node.config.values)
        limits = connection_limits(node.settings.values)
        serve = self._dispatcher if node.traced is None else node.traced(self._dispatcher)
        return Server(listeners, serve, limits, options, node.clock, node.gate.admit, meter)

    def _tend(self, tiering: Tiering) -> Tending:
        node, here = self._node, self._here()
        return tiering.join(self._replicas, self._creation, node.inter_broker, here, lambda: self._lifecycle.unheard)

    def _forward_audit(self) -> None:
        audit, node = self._node.audit, self._node
        if audit is not None and node.config.values[KAVKA_AUDIT_TOPIC_ENABLE]:
            topic = audit.join(self._creation, node.inter_broker, self._here())
            self._forwarding = node.tasks.create_task(topic.run())

    def _watch_lag(self) -> GroupLag:
        from kavka.runtime.group_lag import GroupLag  # a node that shows no metrics starts faster without

        return GroupLag(lambda: self._coordinating.group_shards, self._replicas, self._others.ask)

    def _dispatch(self) -> Dispatcher:
        node, replicas = self._node, self._replicas
        channel = self._asking
        told = None if node.audit is None else node.audit.decided_by_controller
        forwarding = Forwarding() if channel is None else Forwarding(node.controller, channel, told)
        purgatory = Purgatory(asyncio.get_running_loop())
        lane = node.quorum.dispatcher.lane
        hot: dict[int, HotHandler] = {
            ApiKey.PRODUCE: ProduceHandler(
                replicas,
                self._syncer,
                node.clock,
                purgatory,
                lane,
                self._coordinating.verification,
                self._coordinating.schemas,
            ),
            ApiKey.FETCH: FetchHandler(replicas, self._sessions, purgatory, node.clock, node.settings[FETCH_MAX_BYTES]),
        }
        services: list[object] = [
            node.controller,
            replicas,
            replicas.checkpoints,
            self._producer_ids,
            node.settings,
            forwarding,
            self._creation,
            self._requested,
            purgatory,
            node.gate,
            node.quotas,
            node.quorum.recovery,
            self._telemetry,
        ]
        spreading = Spreading(node.controller.node_id, lambda: node.controller.image, self._others.ask)

        def wrap(key: int, handler: Handler) -> Handler:
            inner = forwarding.wrap(key, handler)
            whole = inner if self._alone else spreading.wrap(key, inner)
            return whole if node.audit is None else node.audit.wrap(key, whole)

        late, caps = self._coordinating, frame_caps(node.config.values)
        return Dispatcher(HANDLERS, services, hot, node.tasks, node.clock, wrap=wrap, late=late, caps=caps, lane=lane)

    # -- coming up ------------------------------------------------------------------------------

    async def start(self, stopping: asyncio.Event) -> bool:
        """Load what is on disk and come into service; False if told to stop meanwhile. Raises KafkaError."""
        image = await until_stopped(stopping, self._node.controller.ready() if self._alone else self._registered())
        if image is None or not await self._loading.run(image, stopping):
            return False
        self.loaded = True
        self._cleaner.load()
        await self._catch_up(image)
        if self._alone:
            cordoned = cordoned_ids(self._replicas.dirs)
            self.epoch = await register_node(self._node.controller, self._registration, cordoned)
            self._lifecycle.take_over(self.epoch)
            self._running.append(self._node.tasks.create_task(self._lifecycle.run()))
        services: list[Service] = [self._server, self._coordinating, self._requested]
        services.append(Housekeeping(self._replicas, self._syncer, self._node.clock))
        services += [self._cleaner, LoopWatch(self._node.metrics, self._node.clock, self._dispatcher.holding)]
        services.append(Collecting(self._dispatcher.busy))
        services += self._replicating.services if self._replicating is not None else ()
        services += [self._lag] if self._lag is not None else ()
        services += self._between_disks() if len(self._replicas.dirs) > 1 else ()
        services += [self._tending] if self._tending is not None else ()
        self._forward_audit()
        self._running += [self._node.tasks.create_task(service.run()) for service in services]
        self._listen(self._node.settings.values)
        self._node.settings.subscribe(self._listen)
        self._node.when_secured(lambda: self._listen(self._node.settings.values))
        self._show()
        return self._alone or bool(await until_stopped(stopping, self._lifecycle.come_into_service()))

    def _listen(self, values: Values) -> None:
        """Open and close listeners as the settings say, and limit those that are open then."""
        self._listening.follow(values)
        self._server.limit(self._limits())

    async def _registered(self) -> MetadataImage:
        """The metadata, once it has this start of the broker in it: then nothing on disk is taken for foreign."""
        self.epoch = await self._lifecycle.register()
        self._running.append(self._node.tasks.create_task(self._lifecycle.run()))
        return await self._lifecycle.caught_up()

    async def _catch_up(self, image: MetadataImage) -> None:
        """Go from the image that was loaded for to the newest one, and follow from there."""
        controller, replicas, turn = self._node.controller, self._replicas, Turn()
        while (newest := controller.image) is not image:
            for _ in replicas.apply(newest, between(image, newest)) or ():
                await turn.breathe()
            image = newest
        controller.subscribe(replicas.apply)
        controller.subscribe(self._coordinating.apply)
        if self._replicating is not None:
            self._replicating.start(image)
            controller.subscribe(self._replicating.apply)
        if self._tending is not None:
            controller.subscribe(self._tending.apply)

    def _show(self) -> None:
        metrics, detail = self._node.metrics, self._node.config.values[KAVKA_METRICS_DETAIL]
        show_requests(metrics, {"broker": self._dispatcher, "controller": self._node.quorum.dispatcher})
        show_connections(metrics, self._server)
        show_quotas(metrics, self._node.quotas)
        show_replicas(metrics, self._replicas, self._sessions, self._cleaner)
        show_partitions(metrics, self._replicas, detail)
        if self._replicating is not None:
            show_isr(metrics, self._replicating.isr)
        if self._lag is not None:
            show_lag(metrics, self._lag, detail)
        show_coordinators(metrics, self._coordinating)
        show_share_groups(metrics, self._coordinating)
        self._telemetry.clients.show(metrics, self._node.clock.now_ms)
        if self._tending is not None:
            self._tending.show(metrics)

    @property
    def unheard(self) -> bool:
        """Whether no controller has heard of this broker for a whole session."""
        return self._lifecycle.unheard

    def listen(self, listener: BoundListener) -> None:
        """Serve one more listener, until the broker stops."""
        self._server.listen(listener)

    async def registry(self) -> RegistryService:
        """Who answers for the schema registry; makes the coordinators."""
        return await self._coordinating.registry()

    def settle(self) -> None:
        """Load what a node needs that is ready, beside what is being done."""
        for work in (self._dispatcher.load_first(), self._coordinating.load_when_used()):
            self._running.append(self._node.tasks.create_task(work))

    # -- going down -----------------------------------------------------------------------------

    async def stop(self) -> None:
        """Hand over what this broker leads, answer what was asked, and end its services."""
        if self._forwarding is not None:
            self._forwarding.cancel()
            await asyncio.wait([self._forwarding])
        if not self._alone and self.epoch >= 0 and self._node.config.values[CONTROLLED_SHUTDOWN_ENABLE]:
            await self._lifecycle.leave(LEAVE_SECONDS)
        self._coordinating.close()
        self._others.close()
        if self._replicating is not None:
            self._replicating.close()
        await self._server.drain(DRAIN_MS)
        self._dispatcher.give_up()
        for service in reversed(self._running):
            service.cancel()
        if self._running:
            await asyncio.wait(self._running)
        self._syncer.close()


async def until_stopped(stopping: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """What some work comes to, or None if the node is told to stop before."""
    async with asyncio.TaskGroup() as tasks:
        doing, told = tasks.create_task(work), tasks.create_task(stopping.wait())
        await asyncio.wait((doing, told), return_when=asyncio.FIRST_COMPLETED)
        doing.cancel()
        told.cancel()
    return None if doing.cancelled() else doing.result()


def fetch_sessions(values: Values, draw: Callable[[int, int], int]) -> FetchSessions:
    """An empty cache of fetch sessions."""
    slots = values[MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS]
    return FetchSessions(slots, SESSION_EVICTION_MS, lambda: draw(1, MAX_SESSION_ID))


def previous_epoch(marks: Mapping[str, int | None], paths: list[str]) -> int:
    """The broker epoch in the marks of a clean stop; -1 unless all directories have one."""
    known = {marks.get(path) for path in paths}
    epochs = {epoch for epoch in known if epoch is not None}
    return min(epochs) if epochs and None not in known else -1

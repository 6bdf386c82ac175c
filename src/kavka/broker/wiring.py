"""How a node is put together: the one place that constructs more than one subsystem, with the two roles beside it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka import __version__
from kavka.broker.broker_role import BrokerEnvironment, BrokerRole, Service, previous_epoch
from kavka.broker.config import NodeConfig, check_cordoned
from kavka.broker.controller_role import ControllerRole
from kavka.broker.coordinating import COORDINATORS
from kavka.broker.directories import open_dirs
from kavka.broker.gate import Gate, authorizer_of
from kavka.broker.limits import socket_options
from kavka.broker.listeners import REGISTRY, controller_names
from kavka.broker.metrics import show_connections, show_process, show_quorum, show_requests, show_security
from kavka.broker.metrics_http import MetricsPage
from kavka.broker.partition_metrics import show_leaders
from kavka.broker.ports import Console, MakeConsole, MakeRegistryFace, Ports
from kavka.broker.quotas import Quotas
from kavka.broker.securing import Securing
from kavka.client.connector import Connector
from kavka.client.dial import Dial
from kavka.controller.machine import Controller
from kavka.metadata.live import LiveSettings
from kavka.metadata.names import CLUSTER_METADATA
from kavka.model.clock import Clock
from kavka.model.settings import (
    BROKER_RACK,
    INTER_BROKER_LISTENER_NAME,
    KAVKA_AUDIT_DIR,
    KAVKA_AUDIT_ENABLE,
    KAVKA_AUDIT_TOPIC_ENABLE,
    KAVKA_CONSOLE_LISTENER,
    KAVKA_METRICS_LISTENER,
    KAVKA_OTEL_ENDPOINT,
    KAVKA_OTEL_METRICS_INTERVAL_MS,
    KAVKA_OTEL_TRACES_SAMPLE,
    KAVKA_REGISTRY_LISTENER,
    KAVKA_REGISTRY_SECURITY_PROTOCOL,
    KAVKA_REMOTE_CACHE_DIR,
    REMOTE_LOG_STORAGE_SYSTEM_ENABLE,
    REQUEST_TIMEOUT_MS,
    SECURITY_INTER_BROKER_PROTOCOL,
    SettingError,
    Values,
)
from kavka.model.types import Endpoint, TopicPartition
from kavka.net.server import BoundListener, SocketOptions
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.driver import RaftDriver
from kavka.quorum.format import (
    CONTROLLER_ENDPOINT,
    NodeDirs,
    read_bootstrap,
)
from kavka.quorum.membership import ControllerMembership
from kavka.quorum.registration import Registration, bound_endpoints
from kavka.quorum.settings import MetadataReplica, quorum_settings, snapshot_rules
from kavka.replica.dirs import LogDir
from kavka.replica.loading import Loading, tell
from kavka.replica.manager import ReplicaManager
from kavka.replica.stopping import stop_cleanly
from kavka.replica.tier import Tiers
from kavka.runtime.broker_channels import BrokerChannels
from kavka.storage.dirs import take_clean_shutdown, write_clean_shutdown
from kavka.storage.disk import Disk
from kavka.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from types import ModuleType

    from kavka.broker.auditing import Audit
    from kavka.broker.tiering import Tiering
    from kavka.net.connection import Receiver
    from kavka.runtime.coordinators import Make
    from kavka.telemetry.otel import SentSpans
    from kavka.tiered.objects.base import ObjectStore

logger = logging.getLogger(__name__)

METADATA: Final = TopicPartition(CLUSTER_METADATA, 0)
HERE: Final = "127.0.0.1:0"
NO_BROKER: Final = -1
"""The broker epoch of a node that is none."""


class ReadyReport(NamedTuple):
    """What a started node tells about itself."""

    node_id: int
    cluster_id: str
    bootstrap: str | None
    controller: str | None
    console: str | None
    registry: str | None
    metrics: str | None


class Started(NamedTuple):
    """What lies on a node's disks, and the sockets that are bound for it."""

    dirs: NodeDirs
    marks: Mapping[str, int | None]
    listeners: list[BoundListener]
    controller_listeners: list[BoundListener]
    console: list[BoundListener]
    """Where the console is served, if it is."""

    @property
    def ports(self) -> dict[str, int]:
        """The ports that are really bound, by the names of listeners."""
        return {listener.name: listener.port for listener in (*self.listeners, *self.controller_listeners)}


async def metrics_page(
    metrics: Metrics, values: Values, unready: Callable[[], str | None]
) -> tuple[list[Service], str | None]:
    """The page for Prometheus and its address, if one is configured or a console is to show it."""
    listener = values[KAVKA_METRICS_LISTENER] or (values[KAVKA_CONSOLE_LISTENER] and HERE)
    if not listener:
        return [], None
    host, _, port = listener.rpartition(":")
    page = MetricsPage(metrics, host.strip("[]"), int(port), unready)
    return [page], await page.open()


class Node:
    """One node: a broker, a controller, or both; alone, it is a cluster of its own."""

    def __init__(
        self,
        config: NodeConfig,
        disk: Disk,
        clock: Clock,
        dial: Dial | None = None,
        coordinators: Sequence[Make] = COORDINATORS,
        tiers: Tiers | None = None,
        store: ObjectStore | None = None,
        ports: Ports | None = None,
        registry_face: MakeRegistryFace | None = None,
        make_console: MakeConsole | None = None,
    ) -> None:
        """`store` stands for the one that `kavka.remote.storage.url` names, `tiers` for all that is behind logs."""
        self._config = config
        self._disk = disk
        self._clock = clock
        self._coordinators = coordinators
        self._tiers = tiers
        self._store = store
        self._ports = ports or Ports()
        self._registry_face = registry_face
        self._make_console = make_console
        self._gate = Gate(authorizer_of(config.values), loaded=False)
        self._securing = Securing(config, clock, self._gate)
        self._to_controllers = Connector(dial, self._ports.chance.random, security=self._securing.to_controllers)
        self._to_brokers = Connector(dial, self._ports.chance.random, security=self._securing.to_brokers)
        self._quotas = Quotas(config.values, clock)
        self._metrics = Metrics()
        self._tiering: Tiering | None = None
        self._audit: Audit | None = None
        self._spans: SentSpans | None = None
        self._unready: str | None = "the node starts"

    def reload(self) -> None:
        """Read certificates again, whether or not their files have changed."""
        self._securing.keys.ask()

    async def run(self, ready: Callable[[ReadyReport], None], stopping: asyncio.Event) -> None:
        """Start, say so, serve until told to stop, and stop so that the next start has nothing to repair."""
        config = self._config
        options = socket_options(config.values)
        with ExitStack() as held:
            listeners, others = self._bind(config.listeners, options), self._bind(self._controllers(), options)
            seen_at = self._bind_console(options)
            for listener in (*listeners, *others, *seen_at):
                held.callback(listener.socket.close)
            dirs = open_dirs(config, self._disk, self._clock.now_ms(), held)
            marks = {path: take_clean_shutdown(self._disk, path) for path in dirs.directory_ids}
            if config.accept_loss:  # then every log is recovered
                marks = dict.fromkeys(marks)
            started = Started(dirs, marks, listeners, others, seen_at)
            self._securing.cluster_id = dirs.cluster_id
            self._audit = self._open_audit(dirs.node_id)
            controller = self._controller(started)
            settings = LiveSettings(dirs.node_id, config.values)
            settings.subscribe(self._securing.follow)
            settings.ask_before(self._securing.check)
            settings.ask_before(self._check_cordoned)
            controller.subscribe(settings.apply)  # the first: whoever follows the metadata may ask for settings
            controller.subscribe(self._gate.apply)
            controller.subscribe(self._securing.apply)
            controller.subscribe(self._quotas.apply)
            clean = marks[dirs.metadata_dir] is not None
            tell(METADATA, controller.start(clean=clean, accept_loss=config.accept_loss))
            if self._securing.early:
                self._securing.begin_with(read_bootstrap(self._disk, dirs.metadata_dir))
                self._securing.begin_with(controller.stored())
            show_security(self._metrics, self._securing)
            replicas = self._replicas(started, settings) if "broker" in config.roles else None
            try:
                epoch = await self._serve(started, settings, controller, replicas, ready, stopping)
            finally:
                controller.close()
                if self._tiering is not None:
                    self._tiering.close()
                if self._audit is not None:
                    self._audit.close()
                if self._spans is not None:
                    await asyncio.get_running_loop().run_in_executor(None, self._spans.close)
            if epoch is not None and replicas is not None:
                stop_cleanly(replicas, epoch, also=dirs.metadata_dir)
            elif epoch is not None:
                write_clean_shutdown(self._disk, dirs.metadata_dir, epoch)

    async def _serve(
        self,
        started: Started,
        settings: LiveSettings,
        controller: ControllerLoop,
        replicas: ReplicaManager | None,
        ready: Callable[[ReadyReport], None],
        stopping: asyncio.Event,
    ) -> int | None:
        """Run every service until told to stop; the broker epoch of this start, None if it did not come that far."""
        config, metrics = self._config, self._metrics
        async with asyncio.TaskGroup() as tasks:
            quorum = self._control(settings, controller, started, tasks)
            always: list[Service] = [controller, self._quotas, quorum.recovery, self._securing]
            always += self._observers(started.dirs)
            running = [tasks.create_task(service.run()) for service in always]
            watching: list[asyncio.Task[None]] = []
            registration = self._registration(started)
            if started.controller_listeners:
                channel = quorum.channel(config.values[REQUEST_TIMEOUT_MS])
                members: list[Service] = [quorum.server, ControllerMembership(controller, channel, registration)]
                running += [tasks.create_task(service.run()) for service in members]
            broker = None
            if replicas is not None:
                loading = Loading(replicas, self._disk, self._clock, self._ports.new_name)
                node = self._surroundings(settings, controller, quorum, tasks, self._send_spans(started.dirs))
                broker = BrokerRole(node, replicas, loading, started.listeners, registration)
            self._show(controller, quorum, alone=broker is None)
            page, scraped_at = await metrics_page(metrics, config.values, lambda: self._why_unready(controller, broker))
            running += [tasks.create_task(service.run()) for service in page]
            if broker is None or await broker.start(stopping):
                self._unready = None
                registry, asked_at = await self._registry(broker, tasks)
                running += registry
                consoles, seen_at = self._console(started, registration, scraped_at, asked_at)
                watching += [tasks.create_task(console.run()) for console in consoles]
                if config.values[KAVKA_METRICS_LISTENER] is None:
                    scraped_at = None  # the page is for the console alone
                ready(self._report(controller, registration, scraped_at, asked_at, seen_at))
                if broker is not None:
                    broker.settle()
                await stopping.wait()
            logger.info("shutting down")
            self._unready = "the node stops"
            await _ended(watching)  # before those whom they ask
            if broker is not None:
                await broker.stop()
            await controller.leave()
            quorum.close()
            quorum.dispatcher.give_up()
            for service in reversed(running):
                service.cancel()
        if broker is None:
            return NO_BROKER
        return broker.epoch if broker.loaded else None

    def _observers(self, dirs: NodeDirs) -> list[Service]:
        """What keeps the audit log and sends the metrics away, if that is configured."""
        if self._audit is None:
            return self._send_metrics(dirs)
        self._audit.show(self._metrics)
        return [self._audit, *self._send_metrics(dirs)]

    def _show(self, controller: ControllerLoop, quorum: ControllerRole, *, alone: bool) -> None:
        """Have the metrics of this node shown; `alone`: it is a controller and no broker."""
        metrics = self._metrics
        show_quorum(metrics, controller)
        show_leaders(metrics, controller)
        show_process(metrics, self._clock)
        if alone:
            show_requests(metrics, {"controller": quorum.dispatcher})
            show_connections(metrics, quorum.server)

    async def _registry(
        self, broker: BrokerRole | None, tasks: asyncio.TaskGroup
    ) -> tuple[list[asyncio.Task[None]], str | None]:
        """Serve the schema registry and say where, if that is configured."""
        values = self._config.values
        listener = values[KAVKA_REGISTRY_LISTENER]
        if broker is None or self._registry_face is None or not listener:
            return [], None
        from kavka.broker.registry_calls import RegistryCalls  # few nodes serve it
        from kavka.broker.registry_login import RegistryLogin

        logins, login = self._securing.logins.get(REGISTRY), None
        if logins is not None:
            login = RegistryLogin(logins, lambda: self._securing.security, self._clock)
        face = self._registry_face(RegistryCalls(broker.registry, login, self._audit, self._securing.cluster_id))
        host, _, port = listener.rpartition(":")
        endpoint = Endpoint(REGISTRY, host.strip("[]"), int(port), values[KAVKA_REGISTRY_SECURITY_PROTOCOL])
        (bound,) = self._bind([endpoint], socket_options(values))
        running = tasks.create_task(face.run())
        await asyncio.sleep(0)  # now it can be given connections
        broker.listen(replace(bound, connect=face.connect))
        return [running], address(endpoint._replace(port=bound.port))

    def _bind_console(self, options: SocketOptions) -> list[BoundListener]:
        """The socket of the console, if that is configured: it is there as long as the node, whoever serves it."""
        listener = self._config.values[KAVKA_CONSOLE_LISTENER]
        if self._make_console is None or not listener:
            return []
        host, _, port = listener.rpartition(":")
        return [self._ports.listen("console", host.strip("[]"), int(port), options)]

    def _console(
        self, started: Started, registration: Registration, metrics: str | None, registry: str | None
    ) -> tuple[list[Console], str | None]:
        """The process of the console and its address, if there is one."""
        if not started.console or self._make_console is None:
            return [], None
        from kavka.broker.console import console_facts, listener_of  # few nodes have one

        (bound,), endpoint = started.console, listener_of(self._config, registration.endpoints)
        facts = console_facts(self._config, endpoint, address(endpoint), metrics, registry)
        return [self._make_console(bound.socket, facts)], address(Endpoint("", bound.host, bound.port, ""))

    def _why_unready(self, controller: ControllerLoop, broker: BrokerRole | None) -> str | None:
        """Why clients are not served; None if they are."""
        if self._unready is not None:
            return self._unready
        if controller.leader < 0:
            return "no leader of the metadata quorum is known"
        if broker is not None and not controller.image.cluster.is_active(controller.node_id):
            return "the broker is fenced"
        if broker is not None and broker.unheard:
            return "no controller answers: the others take this broker for gone"
        return None

    async def _check_cordoned(self, values: Values) -> None:
        check_cordoned(values, self._config.data_dirs)

    def _surroundings(
        self,
        settings: LiveSettings,
        controller: ControllerLoop,
        quorum: ControllerRole,
        tasks: asyncio.TaskGroup,
        traced: Callable[[Receiver], Receiver] | None,
    ) -> BrokerEnvironment:
        return BrokerEnvironment(
            self._config,
            settings,
            controller,
            quorum,
            tasks,
            self._clock,
            self._to_brokers,
            self._metrics,
            self._coordinators,
            self._gate,
            self._quotas,
            self._bound,
            self._securing.subscribe,
            self._ports,
            self._tiering,
            self._audit,
            traced,
        )

    def _control(
        self, settings: LiveSettings, controller: ControllerLoop, started: Started, tasks: asyncio.TaskGroup
    ) -> ControllerRole:
        listeners, connector = started.controller_listeners, self._to_controllers
        values = self._config.values
        listener = self._config.inter_broker_listener or values[INTER_BROKER_LISTENER_NAME]
        brokers = BrokerChannels(
            lambda: controller.image,
            listener or values[SECURITY_INTER_BROKER_PROTOCOL],
            self._to_brokers,
            timeout_ms=values[REQUEST_TIMEOUT_MS],
        )
        return ControllerRole(
            self._config,
            settings,
            controller,
            listeners,
            tasks,
            self._clock,
            connector,
            self._gate,
            self._quotas,
            brokers,
            None if self._audit is None else self._audit.wrap,
        )

    def _report(
        self,
        controller: ControllerLoop,
        registration: Registration,
        metrics: str | None,
        registry: str | None,
        console: str | None,
    ) -> ReadyReport:
        return ReadyReport(
            controller.node_id,
            controller.cluster_id,
            address(registration.endpoints[0]) if registration.endpoints else None,
            address(registration.controller_endpoints[0]) if self._controllers() else None,
            console,
            registry,
            metrics,
        )

    def _bind(self, endpoints: Iterable[Endpoint], options: SocketOptions) -> list[BoundListener]:
        ports = Counter(endpoint.port for endpoint in (*self._config.listeners, *self._controllers()) if endpoint.port)
        listen = self._ports.listen
        return [
            self._securing.secured(
                listen(endpoint.listener, endpoint.host, endpoint.port, options, both=ports[endpoint.port] < 2),
                endpoint.security_protocol,
            )
            for endpoint in endpoints
        ]

    def _bound(self, endpoint: Endpoint) -> BoundListener | None:
        """A listener that is opened while the node runs, once its keys and users are there."""
        if not self._securing.ready(endpoint):
            return None
        return self._bind([endpoint], socket_options(self._config.values))[0]

    def _controllers(self) -> tuple[Endpoint, ...]:
        """The controller listeners that are served: a node that stands alone needs none."""
        return () if self._config.standalone else self._config.controller_listeners

    def _controller(self, started: Started) -> ControllerLoop:
        config, values, dirs = self._config, self._config.values, started.dirs
        bootstrap = read_bootstrap(self._disk, dirs.metadata_dir)
        controls = config.standalone or "controller" in config.roles
        endpoints = self._controller_endpoints(started) if controls else ()
        replica = MetadataReplica(dirs.node_id, dirs.metadata_directory_id, dirs.cluster_id, endpoints, controls)
        listener = next(iter(controller_names(values)), CONTROLLER_ENDPOINT.listener)
        quorum = RaftDriver(
            self._disk,
            dirs.metadata_dir,
            replica,
            quorum_settings(values, listener),
            self._clock,
            self._to_controllers,
            draw=self._ports.chance.randrange,
        )
        machine = None
        if controls:
            draw, new_id = self._ports.chance.randint, self._ports.new_id
            machine = Controller(dirs.node_id, dirs.cluster_id, values, draw=draw, new_id=new_id)
        return ControllerLoop(
            quorum,
            machine,
            self._clock,
            bootstrap=bootstrap,
            snapshots=snapshot_rules(values),
        )

    def _controller_endpoints(self, started: Started) -> tuple[Endpoint, ...]:
        """Where this node's controller is, or would be, reached."""
        advertised = self._config.advertised_controllers
        bound = bound_endpoints(advertised, started.ports) if self._controllers() else ()
        return bound or advertised or (CONTROLLER_ENDPOINT,)

    def _replicas(self, started: Started, settings: LiveSettings) -> ReplicaManager:
        dirs, marks = started.dirs, started.marks
        log_dirs = [
            LogDir(
                self._disk,
                path,
                dirs.directory_ids.get(path),
                clean=marks.get(path) is not None,
                has_metadata=path == dirs.metadata_dir,
            )
            for path in self._config.data_dirs
        ]
        for log_dir in log_dirs:
            if log_dir.path in dirs.lost:
                log_dir.fail(dirs.lost[log_dir.path])
        tiers = self._tiers if self._tiers is not None else self._open_tiers(settings)
        return ReplicaManager(dirs.node_id, self._disk, log_dirs, settings, self._clock, self._ports.new_name, tiers)

    def _open_tiers(self, settings: LiveSettings) -> Tiers | None:
        """The tiered storage of this node, if it has one; raises InvalidConfig."""
        values = self._config.values
        if not values[REMOTE_LOG_STORAGE_SYSTEM_ENABLE]:
            return None
        from kavka.broker.tiering import FOLDER, Tiering  # a node without starts faster

        folder = values[KAVKA_REMOTE_CACHE_DIR] or f"{self._config.data_dirs[0]}/{FOLDER}"
        clock, metrics, new_id = self._clock, self._metrics, self._ports.new_id
        self._tiering = Tiering(settings, self._disk, folder, clock, metrics, self._store, new_id)
        return self._tiering.tiers

    def _open_audit(self, node_id: int) -> Audit | None:
        """The audit log of this node, if it keeps one; raises SettingError or OSError."""
        values = self._config.values
        if not values[KAVKA_AUDIT_ENABLE]:
            return None
        from kavka.broker.auditing import FOLDER, Audit  # few nodes keep one

        folder = values[KAVKA_AUDIT_DIR] or f"{self._config.data_dirs[0]}/{FOLDER}"
        forwards = values[KAVKA_AUDIT_TOPIC_ENABLE] and "broker" in self._config.roles
        audit = Audit(values, self._disk, folder, self._clock, self._ports.new_id, node_id, forwards=forwards)
        if audit.watches & (audit.selection.allowed if self._gate.authorizer is None else audit.watches):
            self._gate.watch = audit.watch
        if audit.selection.logins:
            self._securing.hears_logins = audit.logged_in
        return audit

    def _about(self, dirs: NodeDirs) -> dict[str, str]:
        """What a collector is told of this node."""
        return {
            "service.name": "kavka",
            "service.version": __version__,
            "service.instance.id": str(dirs.node_id),
            "kavka.cluster.id": dirs.cluster_id,
        }

    def _send_metrics(self, dirs: NodeDirs) -> list[Service]:
        """What sends the metrics to a collector, if one is configured."""
        values = self._config.values
        endpoint, every_ms = values[KAVKA_OTEL_ENDPOINT], values[KAVKA_OTEL_METRICS_INTERVAL_MS]
        if endpoint is None or not every_ms:
            return []
        otel = import_otel()
        return [otel.SentMetrics(self._metrics, endpoint, self._about(dirs), self._clock, every_ms)]

    def _send_spans(self, dirs: NodeDirs) -> Callable[[Receiver], Receiver] | None:
        """What has some requests traced, if a collector is configured."""
        values = self._config.values
        endpoint, share = values[KAVKA_OTEL_ENDPOINT], values[KAVKA_OTEL_TRACES_SAMPLE]
        if endpoint is None or not share:
            return None
        otel = import_otel()
        from kavka.broker.tracing import TracedRequests

        self._spans = otel.SentSpans(endpoint, self._about(dirs))
        return partial(TracedRequests, spans=self._spans, share=share, draw=self._ports.chance.random)

    def _registration(self, started: Started) -> Registration:
        config, dirs = self._config, started.dirs
        return Registration(
            incarnation_id=self._ports.new_id(),
            endpoints=bound_endpoints(config.advertised, started.ports),
            controller_endpoints=self._controller_endpoints(started),
            directories=tuple(dirs.directory_ids[path] for path in config.data_dirs if path not in dirs.lost),
            rack=config.values[BROKER_RACK],
            previous_epoch=previous_epoch(started.marks, list(config.data_dirs)),
        )


def import_otel() -> ModuleType:
    """What sends to a collector; raises SettingError where it is not installed."""
    try:
        from kavka.telemetry import otel
    except ImportError as error:
        raise SettingError(
            f"{KAVKA_OTEL_ENDPOINT.name}: a module is missing ({error.name}): pip install 'kavka[otel]'"
        ) from None
    return otel


def address(endpoint: Endpoint) -> str:
    """HOST:PORT as clients write it."""
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"


async def _ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks, and wait until they are done."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)

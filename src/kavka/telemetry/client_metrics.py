"""Metrics of clients (KIP-714): who is asked for which, how often they may push, and what they pushed last.

Pure: time and chance are arguments. What clients say is kept within bounds: so many clients, so many series, names and
labels cut short, so that nobody fills the node or its page by pushing.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.model.errors import (
    InvalidRequest,
    KafkaError,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)
from kavka.model.pattern import Pattern
from kavka.model.settings.client_metrics import INTERVAL_MS, MATCH, METRICS, SETTINGS, parse_match
from kavka.model.settings.types import Source
from kavka.model.settings.values import Layer, Values
from kavka.model.types import Uuid
from kavka.telemetry.metrics import Collected, Metrics
from kavka.wire.crc32c import crc32c

if TYPE_CHECKING:
    from kavka.telemetry.otlp import Point

ALL: Final = "*"
MAX_CLIENTS: Final = 16_384
KEEP_MS: Final = 60_000
"""How long a client that says nothing is remembered, at least; else three times its interval."""
SWEEP_MS: Final = 10_000
NEVER: Final = -(1 << 62)
MAX_SERIES: Final = 20_000
MAX_SERIES_OF_CLIENT: Final = 1_000
COMPRESSION_TYPES: Final = (4, 3, 1, 2)
"""What clients may compress with, best first: zstd, lz4, gzip, snappy."""
KNOWN_COMPRESSION_TYPES: Final = frozenset({0, *COMPRESSION_TYPES})
RESERVED: Final = frozenset({Uuid.ZERO, Uuid.METADATA_TOPIC})

_ASK_AGAIN: Final = (UnknownSubscriptionId, UnsupportedCompressionType)
"""After these a client may ask for its subscription at once."""


class Client(NamedTuple):
    """Who asks, by the names that subscriptions match."""

    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str
    principal: str

    def attribute(self, name: str, instance_id: Uuid) -> str:
        """What a pattern is matched with."""
        return str(instance_id) if name == "client_instance_id" else str(getattr(self, name))


class Subscription(NamedTuple):
    """A client metrics resource."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: tuple[tuple[str, Pattern], ...]

    def matches(self, client: Client, instance_id: Uuid) -> bool:
        """Whether a client is meant: by all of its patterns."""
        texts = ((pattern, client.attribute(name, instance_id)) for name, pattern in self.patterns)
        return all(not pattern.is_too_long(text) and pattern.matches(text) for pattern, text in texts)


class Answer(NamedTuple):
    """What a client is asked for."""

    instance_id: Uuid
    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int


@dataclass(slots=True)
class Instance:
    """One client as this node knows it."""

    answer: Answer
    version: int
    client: Client
    asked_ms: int = NEVER
    pushed_ms: int = NEVER
    seen_ms: int = NEVER
    terminating: bool = False
    error: type[KafkaError] | None = None

    def may_ask(self, now_ms: int) -> bool:
        """Whether its interval is over, since whatever it did last; then it counts as asking now."""
        if now_ms - max(self.asked_ms, self.pushed_ms) < self.answer.interval_ms:
            return False
        self.asked_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """Whether it pushes in time: at any moment after it asked, for clients choose the first one by chance."""
        if self.asked_ms <= self.pushed_ms and now_ms - self.pushed_ms < self.answer.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True


@dataclass(slots=True)
class Series:
    """What one client pushed last."""

    labels: dict[str, str]
    ends_ms: int
    values: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)


class ClientMetrics:
    """Subscriptions, clients and their series on one node."""

    def __init__(self, max_bytes: int, new_id: Callable[[], Uuid]) -> None:
        self.unknown_subscriptions = 0
        self.throttled = 0
        self.pushes = 0
        self.unreadable = 0
        self.series_refused = 0
        self.max_bytes = max_bytes
        self._make_id = new_id
        self._version = 0
        self._resources: dict[str, dict[str, str]] = {}
        self._subscriptions: list[Subscription] = []
        self._instances: OrderedDict[Uuid, Instance] = OrderedDict()
        self._series: dict[Uuid, Series] = {}
        self._families: dict[str, bool] = {}
        self._kept = 0
        self._swept_ms = 0

    # -- subscriptions -----------------------------------------------------------------------------

    def follow(self, resources: Mapping[str, Mapping[str, str]]) -> None:
        """Take the client metrics resources of the cluster, by name, that have been set."""
        wanted = {name: dict(texts) for name, texts in resources.items()}
        if wanted != self._resources:
            self._resources = wanted
            self._subscriptions = [_subscription(texts) for texts in wanted.values()]
            self._version += 1

    # -- requests ----------------------------------------------------------------------------------

    def ask(self, instance_id: Uuid, client: Client, now_ms: int) -> Answer:
        """What a client is to push; raises ThrottlingQuotaExceeded before its interval is over."""
        if instance_id == Uuid.ZERO:
            instance_id = self._new_id()
        instance = self._instance(instance_id, client, now_ms)
        if not instance.may_ask(now_ms) and instance.error not in _ASK_AGAIN:
            self.throttled += 1
            raise ThrottlingQuotaExceeded("asked again before the push interval was over")
        instance.error = None
        return instance.answer

    def admit(
        self,
        instance_id: Uuid,
        client: Client,
        now_ms: int,
        *,
        subscription_id: int,
        terminating: bool,
        compression_type: int,
        size: int,
    ) -> None:
        """Whether a push is taken; raises the error that refuses it."""
        if instance_id in RESERVED:
            raise InvalidRequest("a push needs the client instance id that this node gave")
        instance = self._instance(instance_id, client, now_ms)
        try:
            if instance.terminating:
                raise InvalidRequest("the client said before that it terminates")
            if not instance.may_push(now_ms) and not terminating:
                self.throttled += 1
                raise ThrottlingQuotaExceeded("pushed again before the push interval was over")
            if subscription_id != instance.answer.subscription_id:
                self.unknown_subscriptions += 1
                raise UnknownSubscriptionId("the subscription is another one now")
            if compression_type not in KNOWN_COMPRESSION_TYPES:
                raise UnsupportedCompressionType(f"there is no compression type {compression_type}")
            if size > self.max_bytes:
                raise TelemetryTooLarge(f"{size} bytes are more than telemetry.max.bytes ({self.max_bytes})")
        except KafkaError as error:
            instance.error = type(error)
            raise
        finally:
            instance.terminating = terminating
        instance.error = None

    def failed(self, instance_id: Uuid, error: type[KafkaError]) -> None:
        """Note that what a client pushed cannot be read."""
        self.unreadable += 1
        if (instance := self._instances.get(instance_id)) is not None:
            instance.error = error

    def gone(self, instance_id: Uuid) -> None:
        """Forget a client whose connection closed; what it pushed last is shown until it is out of date."""
        self._instances.pop(instance_id, None)

    def _instance(self, instance_id: Uuid, client: Client, now_ms: int) -> Instance:
        self.sweep(now_ms)
        instance = self._instances.get(instance_id)
        if instance is None or instance.version < self._version:
            if instance is not None:
                client = instance.client
            instance = Instance(self._answer(instance_id, client), self._version, client)
            self._instances[instance_id] = instance
            if len(self._instances) > MAX_CLIENTS:
                self._instances.popitem(last=False)
        self._instances.move_to_end(instance_id)
        instance.seen_ms = now_ms
        return instance

    def _answer(self, instance_id: Uuid, client: Client) -> Answer:
        interval_ms, wanted = INTERVAL_MS.default, set[str]()
        for subscription in self._subscriptions:
            if subscription.matches(client, instance_id):
                wanted.update(subscription.metrics)
                interval_ms = min(interval_ms, subscription.interval_ms)
        metrics = (ALL,) if ALL in wanted else tuple(sorted(wanted))
        crc = crc32c(f"{metrics}{interval_ms}".encode())
        folded = crc ^ crc32c(instance_id)
        return Answer(instance_id, folded - (1 << 32) if folded >> 31 else folded, metrics, interval_ms)

    def _new_id(self) -> Uuid:
        while (found := self._make_id()) in self._instances:
            pass
        return found

    # -- what was pushed ---------------------------------------------------------------------------

    def take(self, instance_id: Uuid, client: Client, points: Iterable[Point], now_ms: int) -> Iterator[None]:
        """Keep what a client pushed, a point at each step."""
        instance = self._instances.get(instance_id)
        interval_ms = instance.answer.interval_ms if instance is not None else INTERVAL_MS.default
        series = self._series.get(instance_id)
        if series is None:
            if len(self._series) >= MAX_CLIENTS:
                self.series_refused += 1
                return
            series = self._series[instance_id] = Series({"client_instance_id": str(instance_id)}, 0)
        series.labels.update(_labels(client))
        series.ends_ms = now_ms + max(KEEP_MS, 3 * interval_ms)
        self.pushes += 1
        for point in points:
            self._keep(series, point)
            yield

    def _keep(self, series: Series, point: Point) -> None:
        name = family_name(point.name)
        labels = tuple(sorted((_label_name(key), value) for key, value in point.attributes))
        key = (name, labels)
        known = key in series.values
        if self._families.get(name, point.grows) != point.grows or (not known and self._is_full(series)):
            self.series_refused += 1
            return
        self._families[name] = point.grows
        self._kept += not known
        before = series.values.get(key, 0.0) if point.delta else 0.0
        series.values[key] = before + point.value

    def _is_full(self, series: Series) -> bool:
        return self._kept >= MAX_SERIES or len(series.values) >= MAX_SERIES_OF_CLIENT

    def sweep(self, now_ms: int) -> None:
        """Forget clients and series that are out of date; now and then is enough."""
        if now_ms - self._swept_ms < SWEEP_MS:
            return
        self._swept_ms = now_ms
        for instance_id, instance in list(self._instances.items()):
            if now_ms - instance.seen_ms > max(KEEP_MS, 3 * instance.answer.interval_ms):
                del self._instances[instance_id]
        over = [instance_id for instance_id, series in self._series.items() if now_ms > series.ends_ms]
        for instance_id in over:
            self._kept -= len(self._series.pop(instance_id).values)
        if over:  # clients choose the names: those that nobody pushes any more are not kept
            names = {name for series in self._series.values() for name, _ in series.values}
            self._families = {name: self._families[name] for name in names}

    # -- showing -----------------------------------------------------------------------------------

    def show(self, metrics: Metrics, now_ms: Callable[[], int]) -> None:
        """Put everything on a page of metrics."""
        metrics.gauge("kavka_telemetry_clients", "Clients with a telemetry session.", lambda: len(self._instances))
        metrics.gauge("kavka_telemetry_series", "Series that clients have pushed.", lambda: self._kept)
        for name, help_, read in (
            ("pushes", "Pushes of metrics by clients.", lambda: self.pushes),
            ("unreadable_pushes", "Pushes that could not be read.", lambda: self.unreadable),
            ("throttled", "Requests of clients that came before their interval was over.", lambda: self.throttled),
            ("unknown_subscriptions", "Pushes for an outdated subscription.", lambda: self.unknown_subscriptions),
            ("refused_series", "Points beyond what is kept of clients.", lambda: self.series_refused),
        ):
            metrics.count(f"kavka_telemetry_{name}", help_, read)

        def collected() -> Iterator[Collected]:
            self.sweep(now_ms())
            families = self._families  # as it is now: another sweep may come before the last row was taken
            rows: dict[str, list[tuple[Mapping[str, str], float]]] = {}
            for series in self._series.values():
                for (name, labels), value in series.values.items():
                    rows.setdefault(name, []).append(({**dict(labels), **series.labels}, value))
            for name in sorted(rows):
                yield Collected(name, "Pushed by clients.", families[name], rows[name])

        metrics.collect(collected)


def family_name(name: str) -> str:
    """The name on our page of a metric that a client pushed: of its own kind, so that it hides none of the node's."""
    plain = re.sub(r"[^a-zA-Z0-9_]", "_", name.removeprefix("org.apache.kafka."))
    return f"kavka_client_{plain}".removesuffix("_total")


def _label_name(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name).lstrip("_0123456789") or "label"


def _labels(client: Client) -> dict[str, str]:
    return {name: value for name, value in client._asdict().items() if name != "client_source_port"}


def _subscription(texts: Mapping[str, str]) -> Subscription:
    values = Values(SETTINGS, (Layer(Source.CLIENT_METRICS, dict(texts)),), {})
    patterns = tuple(parse_match(entry) for entry in values[MATCH])
    return Subscription(tuple(values[METRICS]), values[INTERVAL_MS], patterns)

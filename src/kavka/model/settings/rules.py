"""What Kafka demands of settings beyond one value at a time, and the checks of a change before it is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kavka.model.errors import InvalidConfig, InvalidRequest
from kavka.model.settings import broker as b
from kavka.model.settings import client_metrics, coordinators, group, replication, tiered
from kavka.model.settings import topic as t
from kavka.model.settings.types import Setting, SettingError, Source, Update
from kavka.model.settings.values import TOPIC, Layer, Values, broker_setting, topic_values, with_dynamic

FOLLOWS_RETENTION = -2
"""The local retention that means "as long as retention"."""


def validate_topic(
    overrides: Mapping[str, str | None], broker: Values, before: Mapping[str, str | None] | None = None
) -> Values:
    """The values of a topic that would have these overrides; raises InvalidConfig. `before` are its overrides now."""
    texts = _known("topic", overrides, TOPIC)
    try:
        values = topic_values(texts, broker)
        _check_compaction_lag(values)
        _check_remote_storage(values, broker, (before or {}).get("remote.storage.enable") == "true")
    except SettingError as error:
        raise InvalidConfig(str(error)) from None
    return values


def validate_group(overrides: Mapping[str, str | None], broker: Values) -> Values:
    """The values of a group that would have these overrides; raises InvalidConfig."""
    texts = _known("group", overrides, group.SETTINGS)
    try:
        values = Values(group.SETTINGS, (Layer(Source.GROUP, texts),), broker.inherited(group.SETTINGS))
        _check_group(values, broker)
    except SettingError as error:
        raise InvalidConfig(str(error)) from None
    return values


def validate_client_metrics(overrides: Mapping[str, str | None]) -> Values:
    """The values of a client metrics subscription; raises InvalidRequest, or InvalidConfig for a bad pattern."""
    for name in overrides:
        if name not in client_metrics.SETTINGS:
            raise InvalidRequest(f"{name} is no client metrics setting")
    texts = _known("client metrics", overrides, client_metrics.SETTINGS)
    try:
        values = Values(client_metrics.SETTINGS, (Layer(Source.CLIENT_METRICS, texts),), {})
        for entry in values[client_metrics.MATCH]:
            client_metrics.parse_match(entry)
    except SettingError as error:
        raise InvalidConfig(str(error)) from None
    interval = values[client_metrics.INTERVAL_MS]
    if not 100 <= interval <= 3_600_000:
        raise InvalidRequest(f"interval.ms: {interval} is not allowed, it must be between 100 and 3600000")
    return values


def validate_broker(
    static: Values, *, per_broker: Mapping[str, str], cluster: Mapping[str, str], one_broker: bool
) -> Values:
    """A node's values under a changed dynamic configuration; raises InvalidRequest.

    `one_broker` says which of the two was changed: that of this broker, or that of the whole cluster.
    """
    try:
        for name, text in (per_broker if one_broker else cluster).items():
            _check_dynamic(name, text, one_broker)
        values = with_dynamic(static, per_broker, cluster)
        check_broker(values)
    except SettingError as error:
        raise InvalidRequest(str(error)) from None
    return values


def check_threads(before: Values, after: Values) -> None:
    """Raise SettingError for a number of threads that goes up or down too far at once, as Kafka's pools cannot."""
    threads: tuple[Setting[int], ...] = (
        b.NUM_IO_THREADS,
        b.NUM_NETWORK_THREADS,
        b.NUM_RECOVERY_THREADS_PER_DATA_DIR,
        b.BACKGROUND_THREADS,
        b.LOG_CLEANER_THREADS,
        replication.NUM_REPLICA_FETCHERS,
    )
    for setting in threads:
        old, new = before[setting], after[setting]
        if new != old:
            _demand(new >= 1, f"{setting.name}: at least 1 is needed")
            _demand(new >= old // 2, f"{setting.name}: at least half of what it is now, {old}, is needed")
            _demand(new <= old * 2, f"{setting.name}: at most twice what it is now, {old}, is allowed")


def check_broker(values: Values) -> None:
    """The rules between a node's settings that do not concern its listeners; raises SettingError."""
    limits = topic_values({}, values)
    _demand(limits[t.TOPIC_SEGMENT_MS] >= 1, "log.roll.ms: at least 1 is needed")
    _demand(limits[t.TOPIC_SEGMENT_JITTER_MS] >= 0, "log.roll.jitter.ms: at least 0 is needed")
    _demand(limits[t.TOPIC_RETENTION_MS] != 0, "log.retention.ms: -1 (no limit) or at least 1 is needed")
    _check_compaction_lag(limits)
    if values[tiered.REMOTE_LOG_STORAGE_SYSTEM_ENABLE]:
        _check_local_retention(limits)
    threads = values[b.LOG_CLEANER_THREADS]
    _demand(
        threads == 0 or values[b.LOG_CLEANER_DEDUPE_BUFFER_SIZE] // threads > 1 << 20,
        "log.cleaner.dedupe.buffer.size: more than 1 MiB for each of log.cleaner.threads is needed",
    )
    wait = values[replication.REPLICA_FETCH_WAIT_MAX_MS]
    for setting in (replication.REPLICA_SOCKET_TIMEOUT_MS, replication.REPLICA_LAG_TIME_MAX_MS):
        _demand(wait <= values[setting], f"replica.fetch.wait.max.ms: at most {setting.name} is needed")
    queued = values[b.QUEUED_MAX_REQUEST_BYTES]
    _demand(
        queued <= 0 or queued >= values[b.SOCKET_REQUEST_MAX_BYTES],
        "queued.max.request.bytes: at least socket.request.max.bytes is needed",
    )
    overrides = connection_overrides(values)
    _demand(
        values[b.MAX_CONNECTIONS_PER_IP] > 0 or bool(overrides),
        "max.connections.per.ip: 0 needs max.connections.per.ip.overrides",
    )
    _demand(
        "classic" in values[coordinators.GROUP_COORDINATOR_REBALANCE_PROTOCOLS],
        "group.coordinator.rebalance.protocols: classic cannot be left out",
    )


def connection_overrides(values: Values) -> dict[str, int]:
    """max.connections.per.ip.overrides as limits by address; raises SettingError."""
    name = b.MAX_CONNECTIONS_PER_IP_OVERRIDES.name
    limits = {}
    for pair in filter(None, (part.strip() for part in values[b.MAX_CONNECTIONS_PER_IP_OVERRIDES].split(","))):
        address, _, limit = pair.rpartition(":")
        if not address or not (limit.isascii() and limit.isdigit()):
            raise SettingError(f"{name}: {pair!r} is not address:limit")
        limits[address.strip("[]")] = int(limit)
    return limits


def _demand(holds: bool, message: str) -> None:
    if not holds:
        raise SettingError(message)


def _known(kind: str, overrides: Mapping[str, str | None], settings: Mapping[str, Setting[Any]]) -> Mapping[str, str]:
    texts = {name: text for name, text in overrides.items() if text is not None}
    if len(texts) != len(overrides):
        missing = ", ".join(name for name, text in overrides.items() if text is None)
        raise InvalidConfig(f"a {kind} setting needs a value: {missing}")
    for name in texts:
        if name not in settings:
            raise InvalidConfig(f"Unknown {kind} config name: {name}")  # words that clients look for
    return texts


def _check_dynamic(name: str, text: str, one_broker: bool) -> None:
    setting = broker_setting(name)
    if setting is None:
        return  # plug-ins have keys of their own
    _demand(setting.update is not Update.READ_ONLY, f"{name}: only a restart of the broker can change it")
    for_listener = setting.name != name
    _demand(for_listener or name not in _RELOADED, f"{name}: it changes only with listener.name.<listener>. before it")
    _demand(
        one_broker or setting.update is not Update.PER_BROKER, f"{name}: it is set for one broker, not for the cluster"
    )
    value = setting.parse(text)
    if setting in (b.MAX_CONNECTIONS, b.MAX_CONNECTION_CREATION_RATE):
        _demand(value > 0, f"{name}: at least 1 is needed")


_RELOADED = frozenset(
    f"ssl.{name}"
    for name in (
        "keystore.type", "keystore.location", "keystore.password", "key.password", "keystore.key",
        "keystore.certificate.chain", "truststore.type", "truststore.location", "truststore.password",
        "truststore.certificates",
    )
)  # fmt: skip


def _check_compaction_lag(values: Values) -> None:
    low, high = values[t.TOPIC_MIN_COMPACTION_LAG_MS], values[t.TOPIC_MAX_COMPACTION_LAG_MS]
    _demand(low <= high, f"min.compaction.lag.ms: {low} is more than max.compaction.lag.ms, which is {high}")


def _check_local_retention(values: Values) -> None:
    for local, whole in (
        (t.TOPIC_LOCAL_RETENTION_BYTES, t.TOPIC_RETENTION_BYTES),
        (t.TOPIC_LOCAL_RETENTION_MS, t.TOPIC_RETENTION_MS),
    ):
        local_limit, limit = values[local], values[whole]
        if local_limit != FOLLOWS_RETENTION and limit > -1:
            _demand(local_limit != -1, f"{local.name}: -1 is not allowed while {whole.name} is {limit}")
            _demand(local_limit <= limit, f"{local.name}: {local_limit} is more than {whole.name}, which is {limit}")


def _check_remote_storage(values: Values, broker: Values, was_remote: bool) -> None:
    if not values[t.TOPIC_REMOTE_STORAGE_ENABLE]:
        _demand(
            not was_remote or values[t.TOPIC_REMOTE_LOG_DELETE_ON_DISABLE],
            "remote.storage.enable: switching it off needs remote.log.delete.on.disable=true; "
            "to keep the remote data set remote.log.copy.disable=true instead",
        )
        return
    _demand(
        broker[tiered.REMOTE_LOG_STORAGE_SYSTEM_ENABLE],
        "remote.storage.enable: the broker has no tiered storage (remote.log.storage.system.enable is false)",
    )
    _demand(
        values[t.TOPIC_CLEANUP_POLICY] in ((), ("delete",)),
        "remote.storage.enable: cleanup.policy must be delete or empty",
    )
    _check_local_retention(values)
    if values[t.TOPIC_REMOTE_LOG_COPY_DISABLE]:
        for local, whole in (
            (t.TOPIC_LOCAL_RETENTION_BYTES, t.TOPIC_RETENTION_BYTES),
            (t.TOPIC_LOCAL_RETENTION_MS, t.TOPIC_RETENTION_MS),
        ):
            _demand(
                values[local] in (FOLLOWS_RETENTION, values[whole]),
                f"{local.name}: it must equal {whole.name} while remote.log.copy.disable is true",
            )


def _check_group(values: Values, broker: Values) -> None:
    for setting in group.SETTINGS.values():
        # an assignment interval that a group leaves to the broker is not held against the broker's limits
        if setting in values or "assignment" not in setting.name:
            _check_limits(setting, values, broker)
    for kind in ("consumer", "share", "streams"):
        session = group.SETTINGS[f"{kind}.session.timeout.ms"]
        heartbeat = group.SETTINGS[f"{kind}.heartbeat.interval.ms"]
        _demand(values[session] > values[heartbeat], f"{session.name}: it must be more than {heartbeat.name}")


def _check_limits(setting: Setting[Any], values: Values, broker: Values) -> None:
    """Hold a group's value against the broker's limits, which bear its name: group.<kind>.min.<rest> and max."""
    kind, _, rest = setting.name.partition(".")
    low = coordinators.SETTINGS.get(f"group.{kind}.min.{rest}")
    high = coordinators.SETTINGS.get(f"group.{kind}.max.{rest.removeprefix('num.')}")
    value = values[setting]
    if low is not None:
        _demand(value >= broker[low], f"{setting.name}: {value} is less than {low.name}, which is {broker[low]}")
    if high is not None:
        _demand(value <= broker[high], f"{setting.name}: {value} is more than {high.name}, which is {broker[high]}")

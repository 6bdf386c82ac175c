"""What Kafka demands of settings beyond one value at a time, and the checks of a change before it is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kavka.model.errors import InvalidConfig, InvalidRequest
from kavka.model.settings import broker as b
from kavka.model.settings import client_metrics, coordinators, group, replication, security, tiered
from kavka.model.settings import topic as t
from kavka.model.settings.types import Setting, SettingError, Source, Update
from kavka.model.settings.values import (
    LISTENER_MECHANISM,
    TOPIC,
    Layer,
    Values,
    broker_setting,
    listener_base,
    topic_values,
    with_dynamic,
)

FOLLOWS_RETENTION = -2
"""The local retention that means "as long as retention"."""
GROUP_KINDS = ("consumer", "share", "streams")
"""The kinds of groups that have settings of their own."""

_SECURITY: Final = "org.apache.kafka.common.security."
_BEARER: Final = f"{_SECURITY}oauthbearer."
FOREIGN: Final[Mapping[Setting[Any], tuple[str, ...]]] = {
    security.PRINCIPAL_BUILDER_CLASS: (security.PRINCIPAL_BUILDER_CLASS.default,),
    security.SECURITY_PROVIDERS: (),
    security.SSL_TRUSTMANAGER_ALGORITHM: ("PKIX", "SunX509"),
    security.SSL_KEYMANAGER_ALGORITHM: ("SunX509", "PKIX", "NewSunX509"),
    security.SASL_LOGIN_CLASS: (
        f"{_SECURITY}authenticator.DefaultLogin",
        f"{_SECURITY}kerberos.KerberosLogin",
        f"{_BEARER}internals.OAuthBearerRefreshingLogin",
    ),
    security.SASL_CLIENT_CALLBACK_HANDLER_CLASS: (
        f"{_SECURITY}authenticator.SaslClientCallbackHandler",
        f"{_BEARER}internals.OAuthBearerSaslClientCallbackHandler",
    ),
    security.SASL_OAUTHBEARER_JWT_RETRIEVER_CLASS: (
        security.SASL_OAUTHBEARER_JWT_RETRIEVER_CLASS.default,
        f"{_BEARER}ClientCredentialsJwtRetriever",
        f"{_BEARER}FileJwtRetriever",
    ),
    b.CONFIG_PROVIDERS: (),
    b.CREATE_TOPIC_POLICY_CLASS_NAME: (),
    b.ALTER_CONFIG_POLICY_CLASS_NAME: (),
    replication.CLIENT_QUOTA_CALLBACK_CLASS: (),
}
"""Keys that name parts of Java which guard something, and the names of those that are here by other means.

Who sets another one relies on it, so it is refused and not passed over.
"""


def validate_topic(
    overrides: Mapping[str, str | None], broker: Values, before: Mapping[str, str | None] | None = None
) -> Values:
    """The values of a topic that would have these overrides; raises InvalidConfig. `before` are its overrides now."""
    texts = _known("topic", overrides, TOPIC)
    try:
        values = topic_values(texts, broker)
        _check_compaction_lag(values)
        _check_remote_storage(values, broker, (before or {}).get("remote.storage.enable") == "true")
        _check_schema_validation(values, broker, before or {})
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


def refuse_foreign(texts: Mapping[str, str]) -> None:
    """Raise SettingError for a key that relies on a part of Java, or that no listener has, however it is written."""
    for name, text in texts.items():
        mechanism, _, base = name.partition(".")
        _demand(
            base not in LISTENER_MECHANISM,
            f"{name}: it counts for no listener, listener.name.<listener>.{mechanism}.{base} does",
        )
        setting = broker_setting(name)
        key = listener_base(name) if setting is not None else None
        prefix = name.removesuffix(key) if key else ""
        _demand(prefix == prefix.lower(), f"{name}: it counts for no listener, {prefix.lower()}{key} does")
        known = FOREIGN.get(setting) if setting is not None else None
        _demand(
            known is None or not text.strip() or text.strip() in known,
            f"{name}: {text.strip()} is a part of Java, which is not here"
            + (f"; there is {' and '.join(known)}" if known else ""),
        )


def check_broker(values: Values) -> None:
    """The rules between a node's settings that do not concern its listeners; raises SettingError."""
    for layer in values.layers:
        refuse_foreign(layer.texts)
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
    _check_groups(values)


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
    _demand(setting not in AT_START, f"{name}: only a restart of the broker can change it")
    _demand(
        for_listener or setting not in OF_A_LISTENER, f"{name}: it changes only with {OF_A_LISTENER_PREFIX} before it"
    )
    _demand(
        one_broker or setting.update is not Update.PER_BROKER, f"{name}: it is set for one broker, not for the cluster"
    )
    value = setting.parse(text)
    if setting in (b.MAX_CONNECTIONS, b.MAX_CONNECTION_CREATION_RATE):
        _demand(value > 0, f"{name}: at least 1 is needed")


AT_START: Final = frozenset({security.SASL_MECHANISM_INTER_BROKER_PROTOCOL})
"""What Kafka takes while it runs, without an effect before a restart: here it says so."""
OF_A_LISTENER_PREFIX: Final = "listener.name.<listener>."
OF_A_LISTENER: Final[frozenset[Setting[Any]]] = frozenset(
    {
        security.SSL_KEYSTORE_TYPE,
        security.SSL_KEYSTORE_LOCATION,
        security.SSL_KEYSTORE_PASSWORD,
        security.SSL_KEY_PASSWORD,
        security.SSL_KEYSTORE_KEY,
        security.SSL_KEYSTORE_CERTIFICATE_CHAIN,
        security.SSL_TRUSTSTORE_TYPE,
        security.SSL_TRUSTSTORE_LOCATION,
        security.SSL_TRUSTSTORE_PASSWORD,
        security.SSL_TRUSTSTORE_CERTIFICATES,
        security.SASL_JAAS_CONFIG,
    }
)
"""What changes only for one listener while a node runs."""


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


def _check_schema_validation(values: Values, broker: Values, before: Mapping[str, str | None]) -> None:
    for setting in (t.TOPIC_CONFLUENT_KEY_SCHEMA_VALIDATION, t.TOPIC_CONFLUENT_VALUE_SCHEMA_VALIDATION):
        if values[setting] and before.get(setting.name) != "true":
            _demand(
                bool(broker[b.KAVKA_REGISTRY_LISTENER]),
                f"{setting.name}: the node has no schema registry ({b.KAVKA_REGISTRY_LISTENER.name} is not set)",
            )


def _check_groups(values: Values) -> None:
    """What a node says of groups: each value within its own limits, and sessions that outlast heartbeats."""
    for setting in coordinators.SETTINGS.values():
        bounds = coordinators.bounds_of(setting)
        if bounds != (None, None):
            _check_bounds(setting, bounds, values, values)
    for kind in GROUP_KINDS:
        _check_session(coordinators.SETTINGS, f"group.{kind}", values)
    _demand(
        len(values[coordinators.GROUP_SHARE_ASSIGNORS]) == 1, "group.share.assignors: exactly one assignor is needed"
    )
    _demand(
        values[coordinators.GROUP_SHARE_MAX_SHARE_SESSIONS] >= values[coordinators.GROUP_SHARE_MAX_SIZE],
        "group.share.max.share.sessions: at least group.share.max.size is needed",
    )


def _check_group(values: Values, broker: Values) -> None:
    for setting in group.SETTINGS.values():
        # an assignment interval that a group leaves to the broker is not held against the broker's limits
        if setting in values or "assignment" not in setting.name:
            _check_bounds(setting, coordinators.bounds_of(setting), values, broker)
    for kind in GROUP_KINDS:
        _check_session(group.SETTINGS, kind, values)


def _check_session(settings: Mapping[str, Setting[Any]], kind: str, values: Values) -> None:
    session, heartbeat = settings[f"{kind}.session.timeout.ms"], settings[f"{kind}.heartbeat.interval.ms"]
    _demand(values[session] > values[heartbeat], f"{session.name}: it must be more than {heartbeat.name}")


def _check_bounds(
    setting: Setting[Any], bounds: tuple[Setting[int] | None, Setting[int] | None], values: Values, broker: Values
) -> None:
    low, high = bounds
    value = values[setting]
    if low is not None:
        _demand(value >= broker[low], f"{setting.name}: {value} is less than {low.name}, which is {broker[low]}")
    if high is not None:
        _demand(value <= broker[high], f"{setting.name}: {value} is more than {high.name}, which is {broker[high]}")

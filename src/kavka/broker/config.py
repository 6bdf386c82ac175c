"""A node's configuration: read once from its file, the environment and the command line, and checked as a whole.

Later sources win: defaults, file, environment, overrides. Nothing here touches the disk beyond reading the file.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kavka.broker import listeners as addresses
from kavka.broker.gate import authorizer_of
from kavka.model.properties import parse_properties
from kavka.model.settings import (
    BROKER,
    BROKER_HEARTBEAT_INTERVAL_MS,
    BROKER_ID,
    BROKER_SESSION_TIMEOUT_MS,
    CONNECTION_FAILED_AUTHENTICATION_DELAY_MS,
    CONNECTIONS_MAX_IDLE_MS,
    CONTROLLER_LISTENER_NAMES,
    CONTROLLER_QUORUM_AUTO_JOIN_ENABLE,
    CONTROLLER_QUORUM_BOOTSTRAP_SERVERS,
    CONTROLLER_QUORUM_VOTERS,
    CORDONED_LOG_DIRS,
    EARLY_START_LISTENERS,
    KAVKA_CONSOLE_LISTENER,
    KAVKA_LOG_FORMAT,
    KAVKA_LOG_LEVEL,
    KAVKA_METRICS_LISTENER,
    KAVKA_OTEL_ENDPOINT,
    KAVKA_OTEL_METRICS_INTERVAL_MS,
    KAVKA_REMOTE_STORAGE_URL,
    LISTENER_SECURITY_PROTOCOL_MAP,
    LISTENERS,
    LOG_DIR,
    LOG_DIRS,
    METADATA_LOG_DIR,
    NODE_ID,
    PROCESS_ROLES,
    REMOTE_LOG_STORAGE_SYSTEM_ENABLE,
    SettingError,
    Values,
    broker_values,
)
from kavka.model.settings.rules import check_broker
from kavka.model.settings.values import broker_setting
from kavka.model.types import EVERY_ADDRESS, Endpoint

ENVIRONMENT_PREFIX: Final = "KAVKA_"
STANDALONE: Final[Mapping[str, str]] = {"listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "kavka-data"}
"""What a node without a configuration file is given beyond Kafka's defaults: it serves this machine alone."""


class ConfigError(Exception):
    """A configuration that a node cannot start with: one line that names the key and what is allowed."""


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """What a node is told about itself. A standalone node is its own cluster and needs no controller listener."""

    node_id: int
    roles: frozenset[str]
    standalone: bool
    listeners: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    controller_listeners: tuple[Endpoint, ...]
    advertised_controllers: tuple[Endpoint, ...]
    inter_broker_listener: str
    data_dirs: tuple[str, ...]
    metadata_dir: str
    values: Values
    warnings: tuple[str, ...] = ()
    accept_loss: bool = False
    """Whether metadata that was committed and is missing may be given up."""


def load_config(
    file: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    overrides: Iterable[str] = (),
    data_dir: str | None = None,
    listen: str | None = None,
    advertise: str | None = None,
    log_level: str | None = None,
    log_format: str | None = None,
) -> NodeConfig:
    """The configuration of `kavka serve`; raises ConfigError.

    `overrides` are key=value, `listen` is host:port and `advertise` host or host:port.
    """
    texts: dict[str, str] = {}
    origins: dict[str, str] = {}
    warnings: list[str] = []
    layers: list[tuple[str, Mapping[str, str]]] = [(file, _read(file)) if file else ("", STANDALONE)]
    layers.append(("the environment", _from_environment(environment or {}, warnings)))
    layers.append(("--override", _from_overrides(overrides)))
    listeners = f"PLAINTEXT://{listen}" if listen is not None else None
    for option, key, text in (
        ("--data-dir", LOG_DIRS.name, data_dir),
        ("--listen", LISTENERS.name, listeners),
        ("--log-level", KAVKA_LOG_LEVEL.name, log_level),
        ("--log-format", KAVKA_LOG_FORMAT.name, log_format),
    ):
        if text is not None:
            layers.append((option, {key: text}))
    for origin, layer in layers:
        texts.update(layer)
        origins.update(dict.fromkeys(layer, origin))
    if advertise is not None:
        texts["advertised.listeners"] = _advertised(advertise, texts)
        origins["advertised.listeners"] = "--advertise"
    try:
        return node_config(texts, warnings=warnings)
    except ConfigError as error:
        origin = origins.get(str(error).partition(":")[0], "")
        raise ConfigError(f"{error} (from {origin})" if origin else str(error)) from None


def node_config(
    texts: Mapping[str, str],
    *,
    warnings: Iterable[str] = (),
    this_host: Callable[[], str] | None = None,
) -> NodeConfig:
    """A node's configuration from its keys; raises ConfigError."""
    try:
        values = broker_values(texts)
        check_broker(values)
        config = _assemble(values, this_host or reachable_name)
        authorizer_of(values)  # one that cannot be honoured must not look as if it were
        for check in (_check_identity, _check_directories, _check_timeouts, _check_early):
            check(config)
        if not config.standalone:
            _check_member(config)
    except SettingError as error:
        raise ConfigError(str(error)) from None
    return replace(config, warnings=(*warnings, *_warnings(texts, values)))


def reachable_name() -> str:
    """The name of this machine if it can be resolved, else localhost."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "localhost"
    return name


def _read(file: str) -> Mapping[str, str]:
    try:
        with open(file, "rb") as opened:
            raw = opened.read()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # what Java reads such a file as
    try:
        return parse_properties(text)
    except ValueError as error:
        raise ConfigError(f"{file}: {error}") from None


def _from_environment(environment: Mapping[str, str], warnings: list[str]) -> dict[str, str]:
    given = {name: text for name, text in environment.items() if name.startswith(ENVIRONMENT_PREFIX)}
    if not given:
        return {}
    keys = {ENVIRONMENT_PREFIX + key.upper().replace(".", "_"): key for key in BROKER}
    # other programs' variables may begin like ours: only what looks misspelt is worth a word
    hints = {name: _nearest(name, keys) for name in sorted(given.keys() - keys.keys())}
    warnings.extend(f"{name} names no setting{hint}" for name, hint in hints.items() if hint)
    return {keys[name]: text for name, text in given.items() if name in keys}


def _from_overrides(overrides: Iterable[str]) -> dict[str, str]:
    found = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--override: {override!r} is not key=value")
        found[key.strip()] = text
    return found


def _advertised(advertise: str, texts: Mapping[str, str]) -> str:
    """`advertised.listeners` with this address for the only listener that clients have."""
    controllers = {name.strip().upper() for name in texts.get("controller.listener.names", "").split(",")}
    entries = [entry.strip() for entry in texts.get("listeners", "PLAINTEXT://:9092").split(",")]
    mine = [entry for entry in entries if entry.partition("://")[0].upper() not in controllers]
    if len(mine) != 1:
        raise ConfigError("--advertise: a node with several listeners says it by advertised.listeners")
    name, _, bound = mine[0].partition("://")
    host = advertise if advertise.endswith("]") or ":" not in advertise else ""
    return f"{name}://{host}:{bound.rpartition(':')[2]}" if host else f"{name}://{advertise}"


def _assemble(values: Values, this_host: Callable[[], str]) -> NodeConfig:
    roles = frozenset(values[PROCESS_ROLES])
    standalone = not any(key.startswith("controller.quorum.") for layer in values.layers for key in layer.texts)
    protocols = addresses.security_protocols(values)
    controllers = addresses.controller_names(values)
    listeners = addresses.listening(values, protocols)
    mine = tuple(listener for listener in listeners if listener.listener not in controllers)
    anywhere = any(listener.host in EVERY_ADDRESS for listener in listeners)
    host = this_host() if anywhere else "localhost"
    advertised: tuple[Endpoint, ...] = ()
    inter_broker = ""
    if "broker" in roles:
        if not mine:
            raise SettingError(f"{LISTENERS.name}: a broker needs one that is not among controller.listener.names")
        advertised = addresses.advertised(values, protocols, listeners, host)
        names = [endpoint.listener for endpoint in advertised]
        inter_broker = addresses.inter_broker_listener(values, protocols, names)
    data_dirs = values[LOG_DIRS] or values[LOG_DIR]
    return NodeConfig(
        node_id=values[NODE_ID],
        roles=roles,
        standalone=standalone,
        listeners=mine,
        advertised=advertised,
        controller_listeners=tuple(listener for listener in listeners if listener.listener in controllers),
        advertised_controllers=addresses.advertised_controllers(values, protocols, listeners, host),
        inter_broker_listener=inter_broker,
        data_dirs=data_dirs,
        metadata_dir=values[METADATA_LOG_DIR] or data_dirs[0],
        values=values,
    )


def _demand(holds: bool, message: str) -> None:
    if not holds:
        raise SettingError(message)


def metrics_are_seen(values: Values) -> bool:
    """Whether anybody can see a node's metrics: on its own page, on the console's, or from a collector."""
    if values[KAVKA_METRICS_LISTENER] is not None or values[KAVKA_CONSOLE_LISTENER] is not None:
        return True
    return values[KAVKA_OTEL_ENDPOINT] is not None and values[KAVKA_OTEL_METRICS_INTERVAL_MS] > 0


def _check_identity(config: NodeConfig) -> None:
    values = config.values
    _demand(
        BROKER_ID not in values or values[BROKER_ID] == values[NODE_ID],
        f"{BROKER_ID.name}: it must be the same as node.id, which is {values[NODE_ID]}",
    )


def _check_directories(config: NodeConfig) -> None:
    check_cordoned(config.values, config.data_dirs)


def check_cordoned(values: Values, data_dirs: Collection[str]) -> None:
    """Whether `cordoned.log.dirs` names log directories of this node; raises SettingError."""
    cordoned = values[CORDONED_LOG_DIRS]
    unknown = [path for path in cordoned if path not in data_dirs]
    _demand(
        cordoned == ("*",) or not unknown, f"{CORDONED_LOG_DIRS.name}: {', '.join(unknown)} is not among the data dirs"
    )


def _check_timeouts(config: NodeConfig) -> None:
    values = config.values
    _demand(
        values[BROKER_HEARTBEAT_INTERVAL_MS] < values[BROKER_SESSION_TIMEOUT_MS],
        f"{BROKER_HEARTBEAT_INTERVAL_MS.name}: it must be less than {BROKER_SESSION_TIMEOUT_MS.name}",
    )
    idle = values[CONNECTIONS_MAX_IDLE_MS]
    _demand(
        idle < 0 or values[CONNECTION_FAILED_AUTHENTICATION_DELAY_MS] < idle,
        f"{CONNECTIONS_MAX_IDLE_MS.name}: it must be more than {CONNECTION_FAILED_AUTHENTICATION_DELAY_MS.name}",
    )


def _check_early(config: NodeConfig) -> None:
    """Controllers are heard before there are any ACLs, else there never would be; brokers never are."""
    named = {name.upper() for name in config.values[EARLY_START_LISTENERS] or ()}
    known = {listener.listener for listener in (*config.listeners, *config.controller_listeners)}
    unknown = ", ".join(sorted(named - known))
    _demand(not unknown, f"{EARLY_START_LISTENERS.name}: {unknown} is not among listeners")
    late = ", ".join(sorted(named & {listener.listener for listener in config.listeners}))
    _demand(not late, f"{EARLY_START_LISTENERS.name}: {late} is a broker's, which is never served before")


def _check_member(config: NodeConfig) -> None:
    """The rules for a node that shares a cluster, by its roles; Kafka demands them of every node."""
    values = config.values
    for needed in (NODE_ID, PROCESS_ROLES):
        _demand(needed in values, f"{needed.name}: a node of a cluster must be given one")
    voters = [int(voter.partition("@")[0]) for voter in values[CONTROLLER_QUORUM_VOTERS]]
    _demand(
        bool(voters or values[CONTROLLER_QUORUM_BOOTSTRAP_SERVERS]),
        f"{CONTROLLER_QUORUM_BOOTSTRAP_SERVERS.name}: it or {CONTROLLER_QUORUM_VOTERS.name} must name the controllers",
    )
    names = addresses.controller_names(values)
    _demand(bool(names), f"{CONTROLLER_LISTENER_NAMES.name}: a node of a cluster must be given one")
    mine = [listener.listener for listener in config.controller_listeners]
    key = CONTROLLER_QUORUM_VOTERS.name
    if "controller" in config.roles:
        _demand(not voters or config.node_id in voters, f"{key}: this controller, {config.node_id}, is not among them")
        missing = [name for name in names if name not in mine]
        _demand(not missing, f"{CONTROLLER_LISTENER_NAMES.name}: {', '.join(missing)} is not among listeners")
        _demand(
            "broker" in config.roles or not config.listeners,
            f"{LISTENERS.name}: a controller has only those of {CONTROLLER_LISTENER_NAMES.name}",
        )
        return
    _demand(config.node_id not in voters, f"{key}: {config.node_id} is this node, which is no controller")
    _demand(not mine, f"{CONTROLLER_LISTENER_NAMES.name}: {', '.join(mine)} must not be in the listeners of a broker")
    protocols = addresses.security_protocols(values)
    unmapped = [name for name in names if name not in protocols]
    _demand(not unmapped, f"listener.security.protocol.map: {', '.join(unmapped)} is missing")
    _demand(
        not values[CONTROLLER_QUORUM_AUTO_JOIN_ENABLE],
        f"{CONTROLLER_QUORUM_AUTO_JOIN_ENABLE.name}: only a controller can join the quorum",
    )


def _warnings(texts: Mapping[str, str], values: Values) -> Iterator[str]:
    idle = []
    listeners = {
        name.lower() for name in (*addresses.security_protocols(values), addresses.REGISTRY, addresses.CONSOLE)
    }
    for key in sorted(texts):
        setting = broker_setting(key)
        listener = key.split(".")[2] if key.startswith("listener.name.") and setting is not None else None
        if setting is None:
            yield f"{key} is no setting{_nearest(key, BROKER)}"
        elif listener is not None and listener not in listeners:
            protocols = LISTENER_SECURITY_PROTOCOL_MAP.name
            yield f"{key}: {protocols} has no {listener.upper()}{_nearest(listener, listeners)}"
        elif not setting.honoured:
            idle.append(key)
    if idle:
        yield f"accepted without effect: {', '.join(idle)}"
    if values[REMOTE_LOG_STORAGE_SYSTEM_ENABLE] and values[KAVKA_REMOTE_STORAGE_URL] is None:
        yield f"{REMOTE_LOG_STORAGE_SYSTEM_ENABLE.name} has no effect without {KAVKA_REMOTE_STORAGE_URL.name}"
    heartbeat, session = values[BROKER_HEARTBEAT_INTERVAL_MS], values[BROKER_SESSION_TIMEOUT_MS]
    if heartbeat * 2 > session:
        yield f"{BROKER_HEARTBEAT_INTERVAL_MS.name} is more than half of {BROKER_SESSION_TIMEOUT_MS.name}"


def _nearest(key: str, keys: Iterable[str]) -> str:
    import difflib  # only a misspelt key needs it

    near = difflib.get_close_matches(key, keys, n=1, cutoff=0.85)
    return f", did you mean {near[0]}?" if near else ""

"""The addresses of a node: `listeners`, `advertised.listeners`, and the security protocol of each name."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from typing import Final

from kavka.model.settings import (
    ADVERTISED_LISTENERS,
    CONTROLLER_LISTENER_NAMES,
    CONTROLLER_QUORUM_VOTERS,
    INTER_BROKER_LISTENER_NAME,
    LISTENER_SECURITY_PROTOCOL_MAP,
    LISTENERS,
    NODE_ID,
    SECURITY_INTER_BROKER_PROTOCOL,
    SettingError,
    Values,
)
from kavka.model.types import EVERY_ADDRESS, Endpoint

REGISTRY: Final = "REGISTRY"
"""What the listener of the schema registry is called: its settings begin with `listener.name.registry.`."""
CONSOLE: Final = "CONSOLE"
"""And that of the console."""
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_HOST: Final = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-%._:")


def controller_names(values: Values) -> tuple[str, ...]:
    """controller.listener.names, in capitals."""
    return tuple(name.upper() for name in values[CONTROLLER_LISTENER_NAMES])


def security_protocols(values: Values) -> dict[str, str]:
    """The security protocol of each listener name; raises SettingError."""
    key = LISTENER_SECURITY_PROTOCOL_MAP.name
    protocols = {}
    for pair in filter(None, (part.strip() for part in values[LISTENER_SECURITY_PROTOCOL_MAP].split(","))):
        name, colon, protocol = (part.strip().upper() for part in pair.rpartition(":"))
        if not colon or not name or protocol not in PROTOCOLS:
            raise SettingError(f"{key}: {pair!r} is not NAME:PROTOCOL with one of {', '.join(PROTOCOLS)}")
        protocols[name] = protocol
    if LISTENER_SECURITY_PROTOCOL_MAP not in values:
        names = controller_names(values)
        used = {*names, *(entry.partition(":")[0].upper() for entry in values[LISTENERS])}
        if used.isdisjoint(PROTOCOLS[1:]):  # Kafka takes controllers for plain text only where nothing is secured
            protocols.update(dict.fromkeys((name for name in names if name not in protocols), "PLAINTEXT"))
    return protocols


def listening(values: Values, protocols: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """Where the node listens, brokers' and controllers' listeners alike; raises SettingError."""
    endpoints = _endpoints(LISTENERS.name, values[LISTENERS], protocols)
    _refuse_shared_ports(endpoints)
    return endpoints


def advertised(
    values: Values, protocols: Mapping[str, str], listeners: Iterable[Endpoint], default_host: str
) -> tuple[Endpoint, ...]:
    """What clients are told to connect to; raises SettingError. Port 0 means the port that was bound.

    A listener on every address is told with the default host, unless `advertised.listeners` has it.
    """
    controllers = controller_names(values)
    given = values[ADVERTISED_LISTENERS]
    names = [listener.listener for listener in listeners if listener.listener not in controllers]
    if given is None:
        key = LISTENERS.name
        found = [
            endpoint._replace(host=default_host) if endpoint.host in EVERY_ADDRESS else endpoint
            for endpoint in listeners
            if endpoint.listener in names
        ]
    else:
        key = ADVERTISED_LISTENERS.name
        found = [
            endpoint if endpoint.host else endpoint._replace(host=default_host)
            for endpoint in _endpoints(key, given, protocols)
            if endpoint.listener not in controllers
        ]
    for endpoint in found:
        if endpoint.listener not in names:
            raise SettingError(f"{key}: {endpoint.listener} is not among listeners ({', '.join(names) or 'none'})")
        if endpoint.host in EVERY_ADDRESS:
            raise SettingError(f"{key}: nobody can connect to {endpoint.host}, it must be an address they can reach")
    return tuple(found)


def advertised_controllers(
    values: Values, protocols: Mapping[str, str], listeners: Iterable[Endpoint], default_host: str
) -> tuple[Endpoint, ...]:
    """Where other nodes find this controller, the listener they use first; raises SettingError."""
    entries = values[ADVERTISED_LISTENERS] or ()
    given = {endpoint.listener: endpoint for endpoint in _endpoints(ADVERTISED_LISTENERS.name, entries, protocols)}
    bound = {listener.listener: listener for listener in listeners}
    voters = dict(voter.split("@", 1) for voter in values[CONTROLLER_QUORUM_VOTERS])
    mine = voters.get(str(values[NODE_ID]))
    found = []
    for name in controller_names(values):
        if name in given:
            found.append(given[name])
        elif name in bound:
            host, port = bound[name].host, bound[name].port
            if host in EVERY_ADDRESS:
                # Kafka tells others of the address in controller.quorum.voters, for the first listener
                host, port = split_address(mine) if mine and not found else (default_host, port)
            found.append(bound[name]._replace(host=host, port=port))
    strange = next((endpoint.host for endpoint in found if endpoint.host in EVERY_ADDRESS), None)
    if strange is not None:
        raise SettingError(f"{ADVERTISED_LISTENERS.name}: nobody can connect to {strange or 'every address'}")
    return tuple(found)


def inter_broker_listener(values: Values, protocols: Mapping[str, str], names: Iterable[str]) -> str:
    """The name of the listener that brokers use among themselves; raises SettingError."""
    given = values[INTER_BROKER_LISTENER_NAME]
    if given is None:
        name, key = values[SECURITY_INTER_BROKER_PROTOCOL], SECURITY_INTER_BROKER_PROTOCOL.name
    elif SECURITY_INTER_BROKER_PROTOCOL in values:
        raise SettingError(
            f"{INTER_BROKER_LISTENER_NAME.name}: not together with {SECURITY_INTER_BROKER_PROTOCOL.name}"
        )
    else:
        name, key = given.upper(), INTER_BROKER_LISTENER_NAME.name
        if name not in protocols:
            raise SettingError(f"{key}: {name} is not in {LISTENER_SECURITY_PROTOCOL_MAP.name}")
    names = list(names)
    if name not in names:
        raise SettingError(f"{key}: {name} is not an advertised listener, it must be one of {', '.join(names)}")
    return name


def split_address(text: str) -> tuple[str, int]:
    """Host and port, split at the last colon; an IPv6 address may stand in brackets. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if host[:1] == "[" and host[-1:] == "]":
        host = host[1:-1]
    if not colon or not set(host) <= _HOST or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise ValueError(f"{text!r} is not host:port")
    return host, int(port)


def _endpoints(key: str, entries: Iterable[str], protocols: Mapping[str, str]) -> tuple[Endpoint, ...]:
    endpoints: dict[str, Endpoint] = {}
    for entry in entries:
        name, separator, address = entry.partition("://")
        name = name.strip().upper()
        try:
            host, port = split_address(address.strip())
        except ValueError:
            separator = ""
        if not separator or not name:
            raise SettingError(f"{key}: {entry!r} is not NAME://host:port")
        if name not in protocols:
            raise SettingError(f"{key}: {name} has no protocol in {LISTENER_SECURITY_PROTOCOL_MAP.name}")
        if name in endpoints:
            raise SettingError(f"{key}: {name} is there twice, each listener needs a name of its own")
        endpoints[name] = Endpoint(name, host, port, protocols[name])
    return tuple(endpoints.values())


def _refuse_shared_ports(endpoints: Iterable[Endpoint]) -> None:
    """Two listeners may share a port only as an IPv4 and an IPv6 address, as in Kafka."""
    by_port: dict[int, list[int]] = {}
    for endpoint in endpoints:
        if endpoint.port:
            by_port.setdefault(endpoint.port, []).append(_ip_version(endpoint.host))
    for port, versions in by_port.items():
        if len(versions) > 1 and sorted(versions) != [4, 6]:
            raise SettingError(
                f"{LISTENERS.name}: port {port} is there {len(versions)} times, "
                "only an IPv4 and an IPv6 address may share one"
            )


def _ip_version(host: str) -> int:
    for family, version in ((socket.AF_INET, 4), (socket.AF_INET6, 6)):
        try:
            socket.inet_pton(family, host.partition("%")[0])
        except OSError:
            continue
        return version
    return 0

"""Listeners that come and go while a broker runs (KIP-226): what may change is checked before, and followed here."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kavka.broker import listeners as addresses
from kavka.model.settings import LISTENER_SECURITY_PROTOCOL_MAP, LISTENERS, SettingError, Values
from kavka.model.types import Endpoint
from kavka.net.server import AddressInUseError, BoundListener, Server, SocketOptions, bind

logger = logging.getLogger(__name__)

Bind = Callable[[Endpoint], BoundListener | None]
"""Opens a listener, secured as its protocol says; None if that cannot be yet."""


def broker_listeners(values: Values) -> dict[str, Endpoint]:
    """The listeners of clients and brokers by name; raises SettingError."""
    controllers = addresses.controller_names(values)
    found = addresses.listening(values, addresses.security_protocols(values))
    return {endpoint.listener: endpoint for endpoint in found if endpoint.listener not in controllers}


def check_listeners(static: Values, before: Values, after: Values) -> None:
    """Raise SettingError unless a running broker can go from some listeners to others."""
    if all(before[setting] == after[setting] for setting in (LISTENERS, LISTENER_SECURITY_PROTOCOL_MAP)):
        return
    old, new = broker_listeners(before), broker_listeners(after)
    protocols = addresses.security_protocols(static)
    known = addresses.advertised(static, protocols, addresses.listening(static, protocols), "localhost")
    missing = [endpoint.listener for endpoint in known if endpoint.listener not in new]
    if missing:
        raise SettingError(f"{LISTENERS.name}: {', '.join(missing)} cannot go while clients are told of it")
    for name, endpoint in new.items():
        if name not in old:
            _check_free(endpoint)
        elif endpoint.security_protocol != old[name].security_protocol:
            raise SettingError(f"{LISTENER_SECURITY_PROTOCOL_MAP.name}: {name} is in use and keeps its protocol")
        elif endpoint != old[name]:
            raise SettingError(f"{LISTENERS.name}: {name} is in use and keeps its address until a restart")


def _check_free(endpoint: Endpoint) -> None:
    try:
        bind(endpoint.listener, endpoint.host, endpoint.port, SocketOptions()).socket.close()
    except AddressInUseError as error:
        raise SettingError(f"{LISTENERS.name}: {error.strerror}") from None


class LiveListeners:
    """The listeners that a broker's server has now."""

    def __init__(self, server: Server, bound: list[BoundListener], bind: Bind) -> None:
        self._server = server
        self._bind = bind
        self.names = {listener.name for listener in bound}

    def follow(self, values: Values) -> None:
        """Open and close listeners, as settings that were checked before say."""
        try:
            wanted = broker_listeners(values)
        except SettingError as error:
            logger.error("keeping the current listeners: %s", error)
            return
        for name in self.names - wanted.keys():
            self.names.remove(name)
            self._server.unlisten(name)
            logger.info("listener %s closed", name)
        for name in wanted.keys() - self.names:
            try:
                listener = self._bind(wanted[name])
            except AddressInUseError as error:
                logger.error("listener %s not started: %s", name, error)
                continue
            if listener is None:
                continue
            self.names.add(name)
            self._server.listen(listener)
            logger.info("listener %s bound to %s:%d", name, listener.host, listener.port)

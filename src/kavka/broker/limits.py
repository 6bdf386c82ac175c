"""The caps on a node's connections, and its sockets' buffers, as its settings have them."""

from __future__ import annotations

import resource
from collections.abc import Collection
from typing import Final

from kavka.broker.quotas import Quotas, client_windows
from kavka.model.settings import (
    CONNECTIONS_MAX_IDLE_MS,
    KAVKA_LIST_REQUEST_MAX_BYTES,
    MAX_CONNECTION_CREATION_RATE,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    QUEUED_MAX_REQUEST_BYTES,
    SOCKET_LISTEN_BACKLOG_SIZE,
    SOCKET_RECEIVE_BUFFER_BYTES,
    SOCKET_REQUEST_MAX_BYTES,
    SOCKET_SEND_BUFFER_BYTES,
    Setting,
    Values,
)
from kavka.model.settings.listeners import ListenerValues
from kavka.model.settings.rules import connection_overrides
from kavka.net.limits import ConnectionLimits
from kavka.net.memory import DEFAULT_BYTES
from kavka.net.server import SocketOptions
from kavka.protocol.frame_caps import FrameCaps

KEPT_FILES: Final = 32
"""Descriptors that are neither for logs nor for connections: listeners, the loop, checkpoints, workers' pipes."""


def socket_options(values: Values) -> SocketOptions:
    """Buffer sizes only where they were asked for: the kernel's own tuning beats Kafka's fixed default."""

    def given(setting: Setting[int]) -> int:
        return values[setting] if setting in values else -1  # noqa: SIM401  (Values has no get)

    return SocketOptions(
        send_buffer_bytes=given(SOCKET_SEND_BUFFER_BYTES),
        receive_buffer_bytes=given(SOCKET_RECEIVE_BUFFER_BYTES),
        backlog=values[SOCKET_LISTEN_BACKLOG_SIZE],
    )


def frame_caps(values: Values) -> FrameCaps:
    """How large requests may be."""
    return FrameCaps(values[SOCKET_REQUEST_MAX_BYTES], values[KAVKA_LIST_REQUEST_MAX_BYTES])


def queued_bytes(values: Values) -> int:
    """What requests that are not served and answers that are not sent may take together."""
    asked = values[QUEUED_MAX_REQUEST_BYTES]
    return asked if asked > 0 else max(DEFAULT_BYTES, values[SOCKET_REQUEST_MAX_BYTES])


def connection_limits(
    values: Values, listeners: Collection[str] = (), protected: str = "", quotas: Quotas | None = None
) -> ConnectionLimits:
    """The caps on connections and frames; the logs' half of the descriptors is not for connections.

    Of several listeners the one that brokers use among themselves is protected from the caps of the node.
    """
    of_listeners = {name: ListenerValues(values, name) for name in listeners}
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = open_files // 2 - KEPT_FILES if open_files != resource.RLIM_INFINITY else values[MAX_CONNECTIONS]
    return ConnectionLimits(
        total=min(values[MAX_CONNECTIONS], max(room, 1)),
        per_host=values[MAX_CONNECTIONS_PER_IP],
        per_host_overrides=connection_overrides(values),
        max_frame_bytes=values[SOCKET_REQUEST_MAX_BYTES],
        cap_of=frame_caps(values).of,
        queued_bytes=queued_bytes(values),
        idle_ms=values[CONNECTIONS_MAX_IDLE_MS],
        per_listener={name: of[MAX_CONNECTIONS] for name, of in of_listeners.items()},
        rate=values[MAX_CONNECTION_CREATION_RATE],
        listener_rates={name: of[MAX_CONNECTION_CREATION_RATE] for name, of in of_listeners.items()},
        host_rates={} if quotas is None else quotas.ip_rates,
        protected=protected if len(of_listeners) > 1 else "",
        windows=client_windows(values),
    )

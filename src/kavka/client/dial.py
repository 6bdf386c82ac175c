"""How the client reaches a broker: the port that TCP implements and a simulation replaces."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterable
from typing import Protocol

from kavka.model.errors import NetworkException


class Transport(Protocol):
    """The sending half of an open connection."""

    def write(self, data: bytes | bytearray | memoryview, /) -> None:
        """Queue bytes for sending."""

    def abort(self) -> None:
        """Drop the connection at once."""


class Dial(Protocol):
    """Opens connections."""

    async def dial(self, host: str, port: int, receiver: asyncio.BufferedProtocol) -> Transport:
        """Connect and let `receiver` have what arrives; raise NetworkException when that fails."""


class TcpDial:
    """Plain TCP. A name is resolved at every dial, so that a broker may move to another address."""

    async def dial(self, host: str, port: int, receiver: asyncio.BufferedProtocol) -> Transport:
        """Connect to the first address of the host that answers."""
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.create_connection(lambda: receiver, host, port)
        except OSError as error:
            raise NetworkException(f"cannot connect to {host}:{port}: {_reason(error)}") from None
        return transport


def _reason(error: OSError) -> str:
    # asyncio words its errors itself; a resolver's number is not an errno.
    if error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    return error.strerror or str(error)


def parse_address(text: str, default_port: int = 9092) -> tuple[str, int]:
    """Read HOST, HOST:PORT, [IPV6]:PORT or a bare IPv6 address."""
    text = text.strip()
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.startswith("[")):
        host, port = text, ""
    host = host.removeprefix("[").removesuffix("]")
    if not host or (port and not (port.isascii() and port.isdigit() and int(port) < 65536)):
        raise ValueError(f"{text!r} is not an address: HOST:PORT expected")
    return host, int(port) if port else default_port


def parse_bootstrap(bootstrap: str | Iterable[str]) -> list[tuple[str, int]]:
    """Read addresses: a list of them, or a text with commas between."""
    parts = [bootstrap] if isinstance(bootstrap, str) else list(bootstrap)
    strange = next((part for part in parts if not isinstance(part, str)), None)
    if strange is not None:
        raise TypeError(f"an address is a text such as 'host:9092', not {strange!r}")
    addresses = [parse_address(address) for part in parts for address in part.split(",") if address.strip()]
    if not addresses:
        raise ValueError("no bootstrap address given")
    return addresses

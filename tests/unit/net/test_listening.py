"""Where a listener is reached."""

from __future__ import annotations

import socket

import pytest

from kavka.model.types import EVERY_ADDRESS
from kavka.net.server import SocketOptions, bind

needs_ipv6 = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")


@needs_ipv6
@pytest.mark.parametrize("host", EVERY_ADDRESS)
def test_every_address_means_both_families(host: str) -> None:
    listener = bind("PLAINTEXT", host, 0, SocketOptions())
    with listener.socket:
        for address in ("127.0.0.1", "::1"):
            socket.create_connection((address, listener.port), timeout=5).close()


@needs_ipv6
def test_two_listeners_can_have_a_family_each() -> None:
    first = bind("A", "0.0.0.0", 0, SocketOptions(), both=False)
    with first.socket, bind("B", "::", first.port, SocketOptions(), both=False).socket as second:
        assert second.getsockname()[1] == first.port

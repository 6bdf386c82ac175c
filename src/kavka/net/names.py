"""What hosts are called, and where they are."""

from __future__ import annotations

import socket

from kavka.security.quota.limits import plain_address


def address_of(host: str) -> str | None:
    """The address of a host, of IPv4 if it has one; None if nobody knows it. It may take seconds: not for the loop."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError):  # ValueError: what cannot be a name
        return None
    first = min(found, key=lambda row: row[0] != socket.AF_INET)
    return plain_address(str(first[4][0]))

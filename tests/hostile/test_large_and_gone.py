"""Clients that ask for much and reset the connection before it is read: only their own requests are given up."""

from __future__ import annotations

import socket
import struct

from crash.raw import Raw
from kavka.protocol.schemas.api_versions import ApiVersionsRequest
from kavka.testing import Cluster

ROUNDS, CLIENTS, NAMES = 6, 8, 20_000


def metadata_request(correlation_id: int) -> bytes:
    """Metadata v1 for many topics that are not there."""
    names = b"".join(struct.pack(">h", 12) + b"topic%07d" % number for number in range(NAMES))
    body = struct.pack(">hhih", 3, 1, correlation_id, 1) + b"x" + struct.pack(">i", NAMES) + names
    return struct.pack(">i", len(body)) + body


def test_a_node_outlives_clients_that_reset_amid_large_requests(victim: Cluster) -> None:
    host, _, port = victim.bootstrap.rpartition(":")
    for _ in range(ROUNDS):
        clients = [socket.create_connection((host, int(port))) for _ in range(CLIENTS)]
        for number, client in enumerate(clients):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(metadata_request(number))
        for client in clients:
            client.close()
        raw = Raw(victim.bootstrap)
        versions = ApiVersionsRequest(client_software_name="victim", client_software_version="1")
        assert raw.call(versions, 3).error_code == 0
        raw.close()

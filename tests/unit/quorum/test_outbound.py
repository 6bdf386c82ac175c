"""What a replica makes of nodes that answer it, and of those that do not."""

from __future__ import annotations

import asyncio
import logging

from kavka.client.connector import Connector
from kavka.model.errors import InconsistentClusterId, NetworkException
from kavka.model.types import Endpoint, Uuid
from kavka.protocol.header import encode_response, parse_request_header
from kavka.protocol.registry import ApiKey
from kavka.protocol.schemas.api_versions import ApiVersion, ApiVersionsResponse
from kavka.protocol.schemas.vote import VoteResponse
from kavka.quorum.outbound import Outbound
from kavka.quorum.settings import MetadataReplica, QuorumSettings
from kavka.raft.effects import Send
from kavka.raft.messages import Vote
from kavka.raft.voters import ReplicaKey

ME = MetadataReplica(1, Uuid(b"m" * 16), "XtzFyRoARCCFvqzNMVkX_Q")
OFFERED = [
    ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4),
    ApiVersion(api_key=ApiKey.VOTE, min_version=0, max_version=2),
]


class Stranger:
    """A node of another cluster, or none at all: the network, and the far end of its connections."""

    def __init__(self, *, down=False):
        self.down = down

    async def dial(self, host, port, receiver):
        if self.down:
            raise NetworkException(f"cannot connect to {host}:{port}")
        self.receiver = receiver
        return self

    def write(self, data):
        header, _ = parse_request_header(bytes(data), 4)
        if header.api_key == ApiKey.API_VERSIONS:
            answer = ApiVersionsResponse(error_code=0, api_keys=OFFERED)
        else:
            answer = VoteResponse(error_code=InconsistentClusterId.code, topics=[])
        pieces = encode_response(header.api_key, header.api_version, header.correlation_id, answer)
        frame = b"".join(map(bytes, pieces))
        self.receiver.get_buffer(-1)[: len(frame)] = frame
        self.receiver.buffer_updated(len(frame))

    def abort(self):
        pass


def send(dial, times):
    """The replies to a request that is sent so often."""
    where = (Endpoint("CONTROLLER", "far", 9093, ""),)
    vote = Vote(epoch=3, candidate=ReplicaKey(1), voter=ReplicaKey(2), last_epoch=0, last_offset=0, pre_vote=False)

    async def work():
        outbound = Outbound(ME, QuorumSettings(), None, Connector(dial, lambda: 0.5))
        replies = [await outbound.send(Send(number, 2, where, vote)) for number in range(times)]
        outbound.close()
        return replies

    return asyncio.run(work())


def test_a_node_of_another_cluster_is_told_from_one_that_cannot_be_reached_and_each_is_told_once(caplog):
    with caplog.at_level(logging.WARNING):
        assert send(Stranger(), 2) == [None] * 2
        (line,) = [entry.getMessage() for entry in caplog.records]
        assert line.startswith(f"INCONSISTENT_CLUSTER_ID: node 2 is not of cluster {ME.cluster_id}")
        caplog.clear()
        assert send(Stranger(down=True), 2) == [None] * 2
        assert [entry.getMessage() for entry in caplog.records] == [
            "connection to far:9093 could not be established: cannot connect to far:9093"
        ]

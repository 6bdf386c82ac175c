"""Single requests over a plain socket, for error codes that clients would hide by retrying."""

from __future__ import annotations

import socket
import struct
from typing import Any

from kavka.protocol.header import encode_request, parse_response
from kavka.protocol.registry import API
from kavka.protocol.schema import declared
from kavka.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest
from kavka.protocol.schemas.sasl_handshake import SaslHandshakeRequest
from kavka.records.builder import BatchBuilder
from kavka.security.sasl.exchange import SaslClient

PATIENCE_S = 60.0


class HangupError(ConnectionError):
    """The node closed the connection instead of answering."""


class Raw:
    """One request, one answer."""

    def __init__(self, bootstrap: str, client_id: str = "crash-tests") -> None:
        self._client_id = client_id
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)

    def call(self, request: object, version: int) -> Any:
        """Send a request and wait for its answer."""
        try:
            self._socket.sendall(encode_request(version, 1, self._client_id, request))
            (size,) = struct.unpack(">i", self._receive(4))
            _, answer = parse_response(API[declared(type(request)).key], version, self._receive(size))
        except (ConnectionResetError, BrokenPipeError) as error:
            raise HangupError(str(error)) from error
        return answer

    def log_in(self, mechanism: str, exchange: SaslClient) -> int:
        """Log in; the error code."""
        chosen = self.call(SaslHandshakeRequest(mechanism=mechanism), 1)
        token: bytes | None = exchange.begin()
        while not chosen.error_code and token is not None:
            answer = self.call(SaslAuthenticateRequest(auth_bytes=token), 2)
            if answer.error_code:
                return int(answer.error_code)
            token = exchange.respond(bytes(answer.auth_bytes))
        return int(chosen.error_code)

    def produce(self, topic: str, value: bytes, partition: int = 0) -> tuple[int, int]:
        """Write one record with acks=all; error code and offset."""
        builder = BatchBuilder()
        builder.append(None, value, 1)
        data = PartitionProduceData(index=partition, records=builder.build())
        topics = [TopicProduceData(name=topic, partition_data=[data])]
        answer = self.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics), 9)
        (row,) = answer.responses[0].partition_responses
        return row.error_code, row.base_offset

    def fetch(self, topic: str, offset: int, partition: int = 0) -> tuple[int, bytes]:
        """Read from an offset; error code and records."""
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 24)
        topics = [FetchTopic(topic=topic, partitions=[wanted])]
        answer = self.call(FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics), 12)
        (row,) = answer.responses[0].partitions
        return row.error_code, bytes(row.records or b"")

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _receive(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            part = self._socket.recv(length - len(data))
            if not part:
                raise HangupError("the node closed the connection")
            data += part
        return bytes(data)

"""Which requests have spans, and from when to when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from kavka.broker.tracing import MOST_TRACES, Traced, TracedRequests
from kavka.model.errors import MalformedMessage
from kavka.net.responses import PENDING
from kavka.net.session import Session
from kavka.protocol.header import encode_request
from kavka.protocol.schemas.list_groups import ListGroupsRequest
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.records.builder import BatchBuilder

FRAME = memoryview(encode_request(4, 7, "reader", ListGroupsRequest(states_filter=[])))


class Told:
    """Where spans go."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, int, Mapping[str, str | int]]] = []
        self.sent_in: list[Traced] = []

    def add(
        self,
        name: str,
        began_ns: int,
        ended_ns: int,
        attributes: Mapping[str, str | int],
        sent_in: Sequence[Traced] = (),
    ) -> None:
        self.spans.append((name, ended_ns - began_ns, attributes))
        self.sent_in.extend(sent_in)


class Place:
    """A connection that a request came on."""

    session = Session(1, listener="CLIENT", client_host="10.0.0.1", client_port=1, principal="User:alice")

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def and_then(self, told: Callable[[], None]) -> None:
        self.waiting.append(told)


def traced(reply: Any, drawn: float) -> tuple[Told, Place]:
    told, place = Told(), Place()
    requests = TracedRequests(lambda *_: reply, told, 0.25, lambda: drawn)
    assert requests(place, FRAME, 4, len(FRAME)) is reply  # type: ignore[arg-type]
    return told, place


def test_a_share_of_the_requests_has_a_span() -> None:
    assert traced([b"answer"], 0.25)[0].spans == []
    told, _ = traced([b"answer"], 0.2)
    ((name, taken_ns, attributes),) = told.spans
    assert name == "ListGroups"
    assert taken_ns >= 0
    assert attributes["messaging.client.id"] == "reader"
    assert attributes["kavka.principal"] == "User:alice"
    assert attributes["kavka.correlation_id"] == 7
    assert attributes["kavka.api.version"] == 4


def test_a_request_that_waits_has_its_span_when_it_is_answered() -> None:
    told, place = traced(PENDING, 0.0)
    assert told.spans == []
    place.waiting[0]()
    assert [name for name, _, _ in told.spans] == ["ListGroups"]


def produced(*headers: bytes, codec: int = 0) -> list[Traced]:
    """What a Produce request was sent in, whose records have these headers."""
    builder = BatchBuilder(codec=codec)
    for text in headers:
        builder.append(b"key", b"value", 1, [("other", b"x"), ("traceparent", text)])
    data = [PartitionProduceData(index=0, records=builder.build())]
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="orders", partition_data=data)])
    frame, told = memoryview(encode_request(9, 7, "writer", request)), Told()
    requests = TracedRequests(lambda *_: b"answer", told, 1.0, lambda: 0.0)
    assert requests(Place(), frame, 4, len(frame)) == b"answer"  # type: ignore[arg-type]
    assert [name for name, _, _ in told.spans] == ["Produce"]
    return told.sent_in


def parent(trace: int, span: int, flags: int = 1) -> bytes:
    return b"00-%032x-%016x-%02x" % (trace, span, flags)


def test_a_produce_request_knows_the_spans_that_its_records_were_sent_in() -> None:
    assert produced(parent(7, 8)) == [(7, 8)]
    assert produced(parent(7, 8), parent(7, 8), parent(9, 10)) == [(7, 8), (9, 10)]
    assert produced(parent(7, 8, flags=0), parent(0, 8), parent(7, 0), b"nonsense", b"") == []
    assert produced(parent(7, 8), codec=1) == []
    assert len(produced(*(parent(7, number) for number in range(1, 100)))) == MOST_TRACES


def test_a_frame_that_cannot_be_read_is_refused_as_without() -> None:
    requests = TracedRequests(lambda *_: PENDING, Told(), 1.0, lambda: 0.0)
    with pytest.raises(MalformedMessage):
        requests(Place(), memoryview(b"\0\0"), 0, 2)  # type: ignore[arg-type]

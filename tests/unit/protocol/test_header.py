"""Requests and responses in their frames."""

from __future__ import annotations

import pytest

from kavka.model.errors import InvalidRequest, MalformedMessage
from kavka.model.types import FileSlice
from kavka.protocol.header import (
    RequestHeader,
    encode_request,
    encode_response,
    parse_request_header,
    parse_response,
)
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schemas.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kavka.protocol.schemas.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kavka.protocol.schemas.heartbeat import HeartbeatResponse
from kavka.protocol.schemas.sasl_handshake import SaslHandshakeRequest

ASK = ApiVersionsRequest(client_software_name="kavka", client_software_version="1")


def test_a_request_with_the_plain_header() -> None:
    framed = encode_request(1, 7, "me", SaslHandshakeRequest(mechanism="PLAIN"))
    assert framed == bytes.fromhex("00000013 0011 0001 00000007 0002 6d65 0005 504c41494e")
    assert parse_request_header(framed, 4) == (RequestHeader(17, 1, 7, "me"), 16)


def test_a_request_with_the_flexible_header() -> None:
    framed = encode_request(3, 7, None, ASK)
    assert framed == bytes.fromhex("00000014 0012 0003 00000007 ffff 00 06 6b61766b61 02 31 00")
    assert parse_request_header(memoryview(framed)[4:]) == (RequestHeader(18, 3, 7, ""), 11)


def test_tagged_fields_of_a_header_are_skipped() -> None:
    data = bytes.fromhex("0012 0003 00000007 0001 61 02 00 01 ff 05 02 ffff")
    assert parse_request_header(data) == (RequestHeader(18, 3, 7, "a"), len(data))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0012 0003 0000",
        "0012 0003 00000007 0005 6162",
        "0012 0003 00000007 0001 61",
        "0012 0003 00000007 0001 ff 00",
    ],
)
def test_a_header_that_does_not_parse_is_malformed(text: str) -> None:
    with pytest.raises(MalformedMessage):
        parse_request_header(bytes.fromhex(text))


def test_a_header_of_an_unknown_api_is_an_invalid_request() -> None:
    with pytest.raises(InvalidRequest, match="no API with key 5"):
        parse_request_header(bytes.fromhex("0005 0000 00000007 ffff"))


def test_a_version_that_we_do_not_have_still_has_a_header() -> None:
    data = bytes.fromhex("0012 0063 00000007 0001 61 00")
    assert parse_request_header(data) == (RequestHeader(18, 99, 7, "a"), len(data))


def test_responses_have_their_size_and_header_before_them() -> None:
    answer = HeartbeatResponse(error_code=27)
    assert encode_response(ApiKey.HEARTBEAT, 3, 9, answer) == [bytes.fromhex("0000000a 00000009 00000000 001b")]
    assert encode_response(ApiKey.HEARTBEAT, 4, 9, answer) == [bytes.fromhex("0000000c 00000009 00 00000000 001b 00")]


def test_the_answer_with_the_versions_keeps_the_first_header() -> None:
    answer = ApiVersionsResponse(error_code=0, api_keys=[ApiVersion(api_key=0, min_version=0, max_version=13)])
    (framed,) = encode_response(ApiKey.API_VERSIONS, 3, 9, answer)
    assert bytes(framed)[4:11] == bytes.fromhex("00000009 0000 02")
    assert parse_response(API[ApiKey.API_VERSIONS], 3, bytes(framed)[4:]) == (9, answer)


class SegmentFile:
    """Stands for an open segment."""

    def fileno(self) -> int:
        return -1

    def pin(self) -> None:
        """Nothing to keep open."""

    def unpin(self) -> None:
        """Nothing to close."""

    def read_at(self, position, length):
        raise AssertionError("it is sent, not read")


def test_a_fetch_response_keeps_its_slices_and_counts_them() -> None:
    piece = FileSlice(SegmentFile(), 0, 1_000_000)
    partition = PartitionData(
        partition_index=0, error_code=0, high_watermark=5, aborted_transactions=None, records=piece
    )
    answer = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    pieces = encode_response(ApiKey.FETCH, 12, 3, answer)
    assert piece in pieces
    head = pieces[0]
    assert isinstance(head, bytes)
    assert int.from_bytes(head[:4], "big") == sum(map(len, pieces)) - 4


@pytest.mark.parametrize("text", ["", "000000", "00000009"])
def test_a_response_that_ends_within_its_header_is_malformed(text: str) -> None:
    with pytest.raises(MalformedMessage):
        parse_response(API[ApiKey.HEARTBEAT], 4, bytes.fromhex(text))

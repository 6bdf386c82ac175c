"""The throttle time of every API and version, written into responses that are encoded already."""

import pytest

from kavka.model.types import FileSlice
from kavka.protocol.header import encode_response, parse_response
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schema import build_default, fields_of, replace
from kavka.protocol.schemas.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kavka.protocol.schemas.produce import NodeEndpoint, PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kavka.protocol.throttle_time import with_throttle_time

VERSIONS = [(api.key, version) for api in API.values() for version in range(api.min_version, api.max_version + 1)]
WITHOUT = {"SaslHandshake", "SaslAuthenticate", "WriteTxnMarkers", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch"}


def told(key, version, response):
    pieces = with_throttle_time(key, version, encode_response(key, version, 5, response), 12_345)
    whole = b"".join(pieces)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    correlation_id, answer = parse_response(API[key], version, whole[4:])
    assert correlation_id == 5
    return answer


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_only_the_throttle_time_changes(key, version):
    response = build_default(API[key].response())
    has_room = any(
        field.name == "throttle_time_ms" and version in field.versions for field in fields_of(type(response))
    )
    expected = replace(response, throttle_time_ms=12_345) if has_room else response
    expected = parse_response(API[key], version, b"".join(encode_response(key, version, 5, expected))[4:])[1]
    assert told(key, version, response) == expected
    if API[key].name in WITHOUT:
        assert not has_room


def test_behind_fields_of_any_length_it_is_found_too():
    rows = [PartitionProduceResponse(index=0, error_code=6, base_offset=-1, error_message="not here")]
    response = ProduceResponse(
        responses=[TopicProduceResponse(name="orders", partition_responses=rows)],
        node_endpoints=[NodeEndpoint(node_id=1, host="somewhere", port=9092)],
    )
    assert told(ApiKey.PRODUCE, 12, response) == replace(response, throttle_time_ms=12_345)


class File:
    """A file that nobody may read here."""


def test_files_in_a_response_stay_files():
    records = FileSlice(File(), 0, 100)
    row = PartitionData(partition_index=0, error_code=0, high_watermark=1, aborted_transactions=None, records=records)
    topic = FetchableTopicResponse(topic="orders", partitions=[row])
    pieces = encode_response(ApiKey.FETCH, 12, 5, FetchResponse(responses=[topic]))
    answer = with_throttle_time(ApiKey.FETCH, 12, pieces, 12_345)
    assert [len(piece) for piece in answer] == [len(piece) for piece in pieces]
    assert [piece for piece in answer if isinstance(piece, FileSlice)] == [records]
    assert b"".join(piece for piece in answer[:2])[9:13] == (12_345).to_bytes(4, "big")

"""Codecs: what is encoded is what is decoded, at every version, and versions are kept to."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable, Generator, Iterator
from typing import Annotated, Any

import pytest

from kavka.metadata.records import RECORDS, record_class
from kavka.model.errors import MalformedMessage, UnsupportedVersion
from kavka.model.types import FileSlice, Uuid
from kavka.protocol.compiler import (
    carries_records,
    decode,
    decode_from,
    decode_steps,
    decoder,
    encode,
    encode_pieces,
    encode_steps,
    encoder,
)
from kavka.protocol.registry import API
from kavka.protocol.schema import Int8, Int16, Int32, declared, message, replace, request, tag
from kavka.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest as Heartbeat
from kavka.protocol.schemas.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kavka.protocol.schemas.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from kavka.protocol.schemas.produce import ProduceResponse

Samples = Callable[[type, int], Iterator[Any]]
JOIN = Heartbeat(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["orders"])


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


def fetched(*records: Any) -> FetchResponse:
    """A response with these record sets, one to a partition."""
    partitions = [
        PartitionData(partition_index=n, error_code=0, high_watermark=5, aborted_transactions=None, records=each)
        for n, each in enumerate(records)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


def finish(steps: Generator[None, None, Any]) -> tuple[Any, int]:
    """What a generator comes to, and how often it gave way."""
    count = 0
    while True:
        try:
            next(steps)
            count += 1
        except StopIteration as end:
            return end.value, count


@pytest.mark.parametrize("key", sorted(API))
def test_in_steps_comes_to_the_same(key: int, samples: Samples) -> None:
    for cls in (API[key].request(), API[key].response()):
        for version in declared(cls).versions:
            for sample in samples(cls, version):
                data = encode(sample, version)
                assert finish(decode_steps(cls, data, version))[0] == decode(cls, data, version)
                pieces = finish(encode_steps(sample, version))[0]
                assert b"".join(bytes(piece) for piece in pieces) == data


def test_a_long_list_takes_many_steps() -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=f"t{n}") for n in range(1000)])
    data = encode(asked, 9)
    found, steps = finish(decode_steps(MetadataRequest, data, 9))
    assert found == asked
    assert steps >= 1000 // 128
    assert finish(encode_steps(asked, 9))[1] >= 1000 // 128


def test_many_tags_and_many_numbers_take_many_steps() -> None:
    tags = encode(MetadataRequest(topics=[]), 9)[:-1] + bytes([0x90, 0x4E]) + bytes([9, 0]) * 10_000
    assert finish(decode_steps(MetadataRequest, tags, 9))[1] >= 10_000 // 128
    numbers = ListPartitionReassignmentsRequest(
        topics=[ListPartitionReassignmentsTopics(name="t", partition_indexes=list(range(10_000)))]
    )
    found, steps = finish(decode_steps(ListPartitionReassignmentsRequest, encode(numbers, 0), 0))
    assert found == numbers
    assert steps >= 10_000 // 512


@pytest.mark.parametrize("key", sorted(API))
def test_what_is_encoded_is_what_is_decoded(key: int, samples: Samples) -> None:
    for cls in (API[key].request(), API[key].response()):
        for version in declared(cls).versions:
            for sample in samples(cls, version):
                assert decode(cls, encode(sample, version), version) == sample


@pytest.mark.parametrize("key", sorted(RECORDS))
def test_metadata_records_survive_the_round_trip(key: int, samples: Samples) -> None:
    cls = record_class(key)
    for version in declared(cls).versions:
        for sample in samples(cls, version):
            assert decode(cls, encode(sample, version), version) == sample


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview], ids=["bytes", "bytearray", "memoryview"])
def test_any_buffer_is_decoded_at_any_offset(make: Callable[[bytes], Any]) -> None:
    encoded = encode(JOIN, 1)
    data = make(b"..." + encoded + b"!")
    assert decode(Heartbeat, data, 1, 3) == JOIN
    assert decode_from(Heartbeat, data, 1, 3) == (JOIN, 3 + len(encoded))
    found = decode(Heartbeat, data, 1, 3)
    assert type(found.group_id) is str


def test_the_compiled_functions_append_and_read() -> None:
    out = bytearray(b"head")
    encoder(Heartbeat, 1)(JOIN, out)
    assert out == b"head" + encode(JOIN, 1)
    assert decoder(Heartbeat, 1)(out, 4) == (JOIN, len(out))
    assert decoder(Heartbeat, 1) is decoder(Heartbeat, 1)


def test_the_regex_is_on_the_wire_only_from_version_1() -> None:
    with_regex = replace(JOIN, subscribed_topic_regex="a.*")
    assert b"a.*" in encode(with_regex, 1)
    with pytest.raises(
        UnsupportedVersion, match="subscribed_topic_regex"
    ):  # not ignorable: it would change its meaning
        encode(with_regex, 0)


def test_an_ignorable_field_is_left_out_where_the_version_lacks_it() -> None:
    asked = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[], rack_id="r1")
    assert decode(FetchRequest, encode(asked, 10), 10).rack_id == ""
    assert decode(FetchRequest, encode(asked, 11), 11).rack_id == "r1"


def test_null_is_refused_at_versions_that_cannot_carry_it() -> None:
    every_topic = MetadataRequest(topics=None, allow_auto_topic_creation=True)
    assert decode(MetadataRequest, encode(every_topic, 1), 1).topics is None
    with pytest.raises(UnsupportedVersion, match="topics"):
        encode(every_topic, 0)
    by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=Uuid(b"i" * 16))])
    assert decode(MetadataRequest, encode(by_id, 12), 12) == by_id


@pytest.mark.parametrize("version", [-1, 3, 19])
def test_versions_that_a_message_does_not_have_are_refused(version: int) -> None:
    with pytest.raises(UnsupportedVersion, match="FetchRequest has versions 4 to 18"):
        decode(FetchRequest, b"", version)
    with pytest.raises(UnsupportedVersion):
        encode(FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), version)


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        encode(replace(JOIN, member_epoch=2**31), 1)
    with pytest.raises(ValueError, match="32767 is the limit"):
        encode(replace(JOIN, group_id="g" * 32768), 1)
    assert decode(Heartbeat, encode(replace(JOIN, group_id="g" * 32767), 1), 1).group_id == "g" * 32767


@message
class Old:
    id: Int16


@message
class New:
    id: Int16
    hint: Annotated[str, tag(0)] = ""


@request(key=0, versions="0", flexible="0+")
class OldRequest:
    items: list[Old]
    last: Int8


@request(key=0, versions="0", flexible="0+")
class NewRequest:
    items: list[New]
    last: Int8
    scale: Annotated[Int32, tag(200)] = 1


def test_tagged_fields_that_a_reader_does_not_know_are_skipped() -> None:
    sent = NewRequest(items=[New(id=1, hint="h" * 300), New(id=2)], last=3, scale=4)
    assert decode(OldRequest, encode(sent, 0), 0) == OldRequest(items=[Old(id=1), Old(id=2)], last=3)
    assert decode(NewRequest, encode(OldRequest(items=[Old(id=1)], last=3), 0), 0) == NewRequest(
        items=[New(id=1)], last=3
    )


def test_a_tagged_field_that_is_not_as_long_as_it_says_is_refused() -> None:
    encoded = encode(NewRequest(items=[], last=3, scale=4), 0)
    assert encoded == bytes.fromhex("01 03 01 c801 04 00000004")
    with pytest.raises(MalformedMessage, match="not as long as it says"):
        decode(NewRequest, bytes.fromhex("01 03 01 c801 05 00000004 00"), 0)


def test_records_are_decoded_as_a_view_of_the_input() -> None:
    data = encode(fetched(b"batch-bytes", None, b""), 12)
    first, second, third = decode(FetchResponse, data, 12).responses[0].partitions
    assert isinstance(first.records, memoryview)
    assert first.records.obj is data
    assert (first.records, second.records, third.records) == (b"batch-bytes", None, b"")


@pytest.mark.parametrize("version", [4, 12])
def test_a_slice_of_a_file_stays_a_piece(version: int) -> None:
    piece = FileSlice(SegmentFile(), 100, 5)
    pieces = encode_pieces(fetched(b"first", piece, None, b"x" * 5000, b"last!"), version)
    assert [type(each) is FileSlice for each in pieces] == [False, True, False, False, False]
    assert pieces[1] is piece
    flat = b"".join(each if not isinstance(each, FileSlice) else b"slice" for each in pieces)
    assert flat == encode(fetched(b"first", b"slice", None, b"x" * 5000, b"last!"), version)
    assert sum(map(len, pieces)) == len(flat)


def test_a_large_batch_in_memory_is_not_copied() -> None:
    batch = memoryview(bytes(10_000))
    assert any(piece is batch for piece in encode_pieces(fetched(batch), 12))


def test_a_slice_of_a_file_cannot_become_bytes() -> None:
    with pytest.raises(TypeError):
        encode(fetched(FileSlice(SegmentFile(), 0, 5)), 12)


def test_only_some_messages_carry_records() -> None:
    assert carries_records(FetchResponse, 12)
    assert not carries_records(ProduceResponse, 9)


def test_tracebacks_show_the_compiled_source() -> None:
    try:
        decode(Heartbeat, b"\x05abc", 1)
    except MalformedMessage as error:
        text = "".join(traceback.format_exception(error))
    assert "<decode ConsumerGroupHeartbeatRequest v1>" in text
    assert "raise bad_length('group_id'" in text
    linecache.checkcache()
    assert linecache.getline("<decode ConsumerGroupHeartbeatRequest v1>", 1) == "def decode(buf, pos):\n"


def test_a_struct_alone_is_not_a_message() -> None:
    with pytest.raises(TypeError, match="not a whole message"):
        encode(Old(id=1), 0)

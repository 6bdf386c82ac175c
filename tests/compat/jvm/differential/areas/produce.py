"""Produce and InitProducerId."""

from __future__ import annotations

from typing import Any

from jvm.differential.areas.topics import NOBODY
from jvm.differential.batches import TIMESTAMP, Batch, batch, message_set_v1, record
from jvm.differential.case import Case, Request

from kavka.model.types import Uuid
from kavka.protocol.schemas.init_producer_id import InitProducerIdRequest
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.wire.compression import compress


def produce(
    records: bytes | None, topic: str = "produced", partition: int = 0, acks: int = -1, **rest: Any
) -> ProduceRequest:
    """Records for one partition, by the topic's name."""
    data = [PartitionProduceData(index=partition, records=records)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=topics, **rest)


def produce_by_id(topic: str | Uuid, records: bytes | None, partition: int = 0) -> Request:
    """Records for one partition, by the topic's id."""
    data = [PartitionProduceData(index=partition, records=records)]

    def request(seen: Any) -> ProduceRequest:
        topic_id = topic if isinstance(topic, Uuid) else seen.topic_id(topic)
        topics = [TopicProduceData(topic_id=topic_id, partition_data=data)]
        return ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)

    return request


def zipped(codec: int, *values: bytes) -> bytes:
    """A compressed batch."""
    body = b"".join(record(i, value) for i, value in enumerate(values))
    return Batch([], attributes=codec, count=len(values), body=compress(codec, body)).encode()


def sequenced(first: int, count: int = 1, epoch: int = 0, producer: int = 7_000_001, **rest: int) -> bytes:
    """A batch of an idempotent producer."""
    values = [f"{first + i}".encode() for i in range(count)]
    return batch(*values, producer_id=producer, producer_epoch=epoch, base_sequence=first, **rest)


def init(version: int, name: str, **fields: Any) -> Case:
    """An InitProducerId case: the id itself is any."""
    given = {"transactional_id": None, "transaction_timeout_ms": 60_000, **fields}
    return Case(f"init producer {name} v{version}", InitProducerIdRequest(**given), version, masks=ANY_PRODUCER)


ANY_PRODUCER = {"producer_id": "<producer>"}
ONE = batch(b"one")
NO_RECORDS = Batch([], count=1, body=b"\xff\xff\xff\xff").encode()

PLAIN = [
    *[Case(f"produce v{version}", produce(ONE), version) for version in range(3, 13)],
    Case("produce by id v13", produce_by_id("produced", ONE), 13),
    Case("produce by an unknown id", produce_by_id(NOBODY, ONE), 13),
    Case("produce by no id", produce_by_id(Uuid.ZERO, ONE), 13),
    Case("produce with acks 1", produce(ONE, acks=1), 9),
    Case("produce with acks 0", produce(ONE, acks=0), 9),
    Case("produce with acks 2", produce(ONE, acks=2), 9),
    Case("produce with acks -2", produce(ONE, acks=-2), 9),
    Case("produce several records", produce(batch(b"a", b"b", None, b"d")), 9),
    Case(
        "produce with keys and headers",
        produce(Batch([record(0, b"v", b"k", [(b"h", b"1"), (b"h", None)])]).encode()),
        9,
    ),
    *[Case(f"produce with codec {codec}", produce(zipped(codec, b"a" * 50, b"b" * 50)), 9) for codec in (1, 2, 3, 4)],
    Case("produce zstd before version 7", produce(zipped(4, b"a" * 50)), 6),
    Case("produce with an unknown codec", produce(Batch([record(0)], attributes=5).encode()), 9),
    Case("produce with a lie about the codec", produce(Batch([record(0)], attributes=1).encode(), "unchecked"), 9),
    Case("produce to an unknown topic v7", produce(ONE, "nowhere"), 7),
    Case("produce to an unknown topic v9", produce(ONE, "nowhere"), 9),
    Case("produce to an unknown topic v12", produce(ONE, "nowhere"), 12),
    Case("produce to an unknown topic with acks 0", produce(ONE, "nowhere", acks=0), 9),
    Case("produce to an unknown partition", produce(ONE, partition=77), 9),
    Case("produce to a negative partition", produce(ONE, partition=-1), 9),
    Case("produce to a bad name", produce(ONE, "a/b"), 9),
    Case("produce to the metadata topic", produce(ONE, "__cluster_metadata"), 9),
    Case("produce nothing at all", ProduceRequest(acks=-1, timeout_ms=1, topic_data=[]), 9),
    Case("produce null records", produce(None), 9),
    Case("produce empty records", produce(b""), 9),
    Case(
        "produce to two partitions, one of them unknown",
        ProduceRequest(
            acks=-1,
            timeout_ms=5_000,
            topic_data=[
                TopicProduceData(
                    name="produced",
                    partition_data=[
                        PartitionProduceData(index=1, records=ONE),
                        PartitionProduceData(index=55, records=ONE),
                    ],
                )
            ],
        ),
        9,
    ),
    Case(
        "produce to a partition twice",
        ProduceRequest(
            acks=-1,
            timeout_ms=5_000,
            topic_data=[
                TopicProduceData(
                    name="unchecked",
                    partition_data=[
                        PartitionProduceData(index=3, records=ONE),
                        PartitionProduceData(index=3, records=ONE),
                    ],
                )
            ],
        ),
        9,
    ),
    Case("produce where two replicas are needed", produce(ONE, "two-isr"), 9),
    Case("produce where two replicas are needed, with acks 1", produce(ONE, "two-isr", acks=1), 9),
    Case("produce in a transaction that is not", produce(ONE, transactional_id="nobody"), 9),
]

WRONG = [
    Case("produce two batches", produce(ONE + batch(b"two")), 9),
    Case("produce a wrong checksum", produce(batch(b"one", crc=12345)), 9),
    Case("produce an old message set", produce(message_set_v1(b"old")), 9),
    Case("produce magic 3", produce(batch(b"one", magic=3)), 9),
    Case("produce a cut batch", produce(ONE[:-3]), 9),
    Case("produce a cut header", produce(ONE[:30]), 9),
    Case("produce trailing bytes", produce(ONE + b"tail"), 9),
    Case("produce a batch that claims to be shorter", produce(batch(b"one", length=55)), 9),
    Case("produce a batch that claims to be tiny", produce(batch(b"one", length=3)), 9),
    Case("produce a batch of negative length", produce(batch(b"one", length=-5)), 9),
    Case("produce a count above the records", produce(batch(b"one", count=2, last_offset_delta=1), "unchecked", 1), 9),
    Case("produce a count that contradicts the delta", produce(batch(b"one", last_offset_delta=5)), 9),
    Case("produce a count of zero", produce(Batch([], count=0, last_offset_delta=0).encode()), 9),
    Case("produce a negative count", produce(batch(b"one", count=-1, last_offset_delta=-2)), 9),
    Case("produce a negative delta", produce(batch(b"one", last_offset_delta=-1)), 9),
    Case("produce records that are no records", produce(NO_RECORDS, "unchecked", 2), 9),
    Case("produce gaps in the deltas", produce(Batch([record(0), record(2)], last_offset_delta=1).encode()), 9),
    Case("produce a control batch", produce(batch(b"\0\0\0\0\0\0", key=b"\0\0\0\1", attributes=0b100000)), 9),
    Case(
        "produce a transactional batch without a transaction",
        produce(batch(b"one", attributes=0b10000, producer_id=9, producer_epoch=0, base_sequence=0)),
        9,
    ),
    Case("produce an idempotent batch without a sequence", produce(batch(b"one", producer_id=9, producer_epoch=0)), 9),
    Case("produce a sequence without a producer", produce(batch(b"one", base_sequence=4)), 9),
    Case("produce with a base offset of its own", produce(batch(b"one", base_offset=99)), 9),
    Case("produce with a leader epoch of its own", produce(batch(b"one", leader_epoch=42)), 9),
    Case("produce with log append time of its own", produce(batch(b"one", attributes=0b1000)), 9),
    Case("produce with a delete horizon of its own", produce(batch(b"one", attributes=0b1000000)), 9),
    Case("produce with unused attributes", produce(batch(b"one", attributes=0b1000000000)), 9),
    Case("produce a negative timestamp", produce(batch(b"one", base_timestamp=-1, max_timestamp=-1)), 9),
    Case("produce a timestamp below -1", produce(batch(b"one", base_timestamp=-5, max_timestamp=-5)), 9),
    Case("produce a wrong newest timestamp", produce(batch(b"one", max_timestamp=TIMESTAMP + 9)), 9),
    Case("produce a timestamp of the far future", produce(batch(b"one", base_timestamp=4_000_000_000_000)), 9),
    Case("produce an old timestamp where it is narrow", produce(ONE, "narrow"), 9),
    Case(
        "produce a new timestamp where it is narrow",
        produce(batch(b"one", base_timestamp=4_000_000_000_000), "narrow"),
        9,
    ),
    Case("produce a message over the limit", produce(batch(b"x" * 300), "small"), 9),
    Case("produce a message within the limit", produce(batch(b"x" * 50), "small"), 9),
    Case("produce many records over the limit", produce(batch(*[b"x" * 40] * 6), "small"), 9),
    Case("produce without a key where it is compacted", produce(ONE, "compacted"), 9),
    Case("produce with a key where it is compacted", produce(batch(b"v", key=b"k"), "compacted"), 9),
    Case(
        "produce some keys where it is compacted",
        produce(Batch([record(0, b"a", b"k"), record(1, b"b"), record(2, b"c")]).encode(), "compacted"),
        9,
    ),
    Case("produce without a key, zipped, where it is compacted", produce(zipped(1, b"v"), "compacted"), 9),
    Case("produce with log append time", produce(batch(b"one", b"two"), "append-time"), 9),
    Case("produce zipped with log append time", produce(zipped(3, b"one" * 20, b"two"), "append-time"), 9),
    Case("produce where it is zipped", produce(batch(b"one" * 20, b"two"), "zipped"), 9),
    Case("produce another codec where it is zipped", produce(zipped(4, b"one" * 20, b"two"), "zipped"), 9),
    Case("produce zipped where it is not", produce(zipped(2, b"one" * 20, b"two"), "unzipped"), 9),
]

IDEMPOTENT = [
    *[init(version, "plainly") for version in range(6)],
    init(3, "again", producer_id=7_000_009, producer_epoch=3),
    init(4, "with an epoch alone", producer_epoch=3),
    init(4, "with an id alone", producer_id=4),
    init(4, "with a timeout of zero", transaction_timeout_ms=0),
    init(4, "with an empty transactional id", transactional_id=""),
    Case("sequence 0", produce(sequenced(0, 3), partition=2), 9),
    Case("sequence 3", produce(sequenced(3, 2), partition=2), 9),
    Case("sequence 0 again", produce(sequenced(0, 3), partition=2), 9, note="a duplicate answers the original offset"),
    Case("sequence 3 again", produce(sequenced(3, 2), partition=2), 9),
    Case("sequence 3 again with another length", produce(sequenced(3, 1), partition=2), 9),
    Case("sequence 9", produce(sequenced(9), partition=2), 9, note="a gap"),
    Case("sequence 5", produce(sequenced(5), partition=2), 9),
    *[Case(f"sequence {number}, one at a time", produce(sequenced(number), partition=2), 9) for number in range(6, 11)],
    Case("sequence 0, when it is forgotten", produce(sequenced(0, 3), partition=2), 9, note="only five are remembered"),
    Case("a new epoch from sequence 0", produce(sequenced(0, epoch=1), partition=2), 9),
    Case("a new epoch from sequence 5", produce(sequenced(5, epoch=2), partition=2), 9),
    Case("an old epoch", produce(sequenced(11, epoch=0), partition=2), 9),
    Case(
        "an old epoch v13",
        lambda seen: ProduceRequest(
            acks=-1,
            timeout_ms=5_000,
            topic_data=[
                TopicProduceData(
                    topic_id=seen.topic_id("produced"),
                    partition_data=[PartitionProduceData(index=2, records=sequenced(11, epoch=0))],
                )
            ],
        ),
        13,
    ),
    Case("an unknown producer in the middle", produce(sequenced(5, producer=7_000_002), partition=2), 9),
    Case("the last sequence", produce(sequenced(2**31 - 2, 2, producer=7_000_003), partition=2), 9),
    Case("the sequence wraps", produce(sequenced(0, 1, producer=7_000_003), partition=2), 9),
    Case("a negative producer epoch", produce(sequenced(0, epoch=-1, producer=7_000_004), partition=2), 9),
]

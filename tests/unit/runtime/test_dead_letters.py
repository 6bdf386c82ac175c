"""Dead letters to a topic that another node leads: none is left out, and none is written twice."""

from __future__ import annotations

import pytest
from played import KEY, PlayedPartition

from kavka.coordinator.share.settings import ShareSettings
from kavka.metadata.delta import apply
from kavka.metadata.image import EMPTY
from kavka.metadata.records.topics import PartitionRecord, TopicRecord
from kavka.model.settings import broker_values
from kavka.model.types import Uuid
from kavka.protocol.schemas.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kavka.protocol.schemas.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kavka.protocol.schemas.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kavka.records.batch import records, scan
from kavka.runtime.dead_letters import DeadLetters, headers_of, origin_of
from kavka.share.partition import REJECTED, Dead

DLQ = Uuid(b"d" * 16)
DEAD = [Dead(3, 5, 1, REJECTED)]


class OtherNode:
    """The leader of the dead-letter topic."""

    def __init__(self):
        self.log = PlayedPartition()
        self.image = apply(
            EMPTY,
            [
                TopicRecord(name="dlq", topic_id=DLQ),
                PartitionRecord(
                    partition_id=0,
                    topic_id=DLQ,
                    replicas=[9],
                    isr=[9],
                    removing_replicas=[],
                    adding_replicas=[],
                    leader=9,
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[],
                ),
            ],
            1,
            1,
        )[0]

    def held(self, topic_id, partition):
        return None

    async def ask(self, node, request):
        assert node == 9
        match request:
            case ListOffsetsRequest():
                asked = request.topics[0].partitions[0].timestamp
                offset = {-1: self.log.high_watermark, -2: self.log.log_start_offset}[asked]
                row = ListOffsetsPartitionResponse(partition_index=0, error_code=0, offset=offset)
                return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="dlq", partitions=[row])])
            case FetchRequest():
                asked = request.topics[0].partitions[0].fetch_offset
                there = self.log.log_start_offset <= asked <= self.log.high_watermark
                read = PartitionData(
                    partition_index=0,
                    error_code=0 if there else 1,
                    high_watermark=self.log.high_watermark,
                    log_start_offset=self.log.log_start_offset,
                    aborted_transactions=None,
                    records=self.log.read_own(asked, 1 << 20) if there else b"",
                )
                return FetchResponse(
                    throttle_time_ms=0, responses=[FetchableTopicResponse(topic_id=DLQ, partitions=[read])]
                )
            case ProduceRequest():
                batch = request.topic_data[0].partition_data[0].records
                assert isinstance(batch, bytes)
                written = PartitionProduceResponse(index=0, error_code=0, base_offset=self.log.append_own(batch, 0))
                return ProduceResponse(responses=[TopicProduceResponse(topic_id=DLQ, partition_responses=[written])])
        raise AssertionError(request)

    @property
    def offsets(self):
        return [
            int(origin_of(record.headers)[3]) for data in self.log.batches for record in records(data, scan(data)[0])
        ]


@pytest.mark.parametrize("trimmed", [0, 2])
def test_who_looks_for_dead_letters_in_a_trimmed_topic_finds_them_and_writes_the_others(play, clock, trimmed):
    async def run():
        node, source = OtherNode(), PlayedPartition()
        settings = ShareSettings(broker_values({})).of_group({})._replace(dead_letter_topic="dlq")
        letters = DeadLetters(node, clock, node.ask)  # type: ignore[arg-type]  # as far as it is asked
        await letters.bury(KEY, source, [Dead(0, 3, 1, REJECTED)], settings)
        node.log.log_start_offset = trimmed
        await letters.bury(KEY, source, DEAD, settings, again=True)
        assert node.offsets == [0, 1, 2, 3, 4, 5]

    play(run())


def test_the_headers_say_where_a_dead_letter_comes_from():
    headers = headers_of(KEY, "jobs", 7, DEAD[0])
    assert origin_of(headers) == (b"g", b"jobs", b"0", b"7")

"""How far replicas are: each partition has its row, or its error code."""

from __future__ import annotations

from kavka.broker.handlers.get_replica_log_info import get_replica_log_info
from kavka.model.types import Uuid
from kavka.protocol.schemas.get_replica_log_info import GetReplicaLogInfoRequest, TopicPartitions

UNKNOWN = Uuid(b"u" * 16)


def test_a_replica_tells_its_last_epoch_its_end_and_the_leader_epoch_it_knows(ask, held):
    partition = held.topic("orders")
    held.produce(partition, b"a", b"b")
    partition.log.epochs.assign(3, 2)
    partition.leader_epoch = 5
    asked = [
        TopicPartitions(topic_id=partition.topic_id, partitions=[0, 9]),
        TopicPartitions(topic_id=UNKNOWN, partitions=[0]),
    ]
    answer = ask(get_replica_log_info, GetReplicaLogInfoRequest(topic_partitions=asked), 0, held.replicas)
    rows = {
        (topic.topic_id, row.partition): (
            row.error_code,
            row.last_written_leader_epoch,
            row.log_end_offset,
            row.current_leader_epoch,
        )
        for topic in answer.topic_partition_log_info_list
        for row in topic.partition_log_info
    }
    assert rows.pop((partition.topic_id, 0)) == (0, 3, 2, 5)
    assert {code for code, *_ in rows.values()} <= {3, 100}
    assert len(rows) == 2

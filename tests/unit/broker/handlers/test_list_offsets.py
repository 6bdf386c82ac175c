"""List offsets: every special timestamp at every version, times, isolation, epochs."""

from __future__ import annotations

import pytest

from kavka.broker.handlers.list_offsets import list_offsets
from kavka.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kavka.records.builder import BatchBuilder

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = range(-1, -7, -1)
SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, PENDING_UPLOAD: 11}
UNSUPPORTED_VERSION, OFFSET_NOT_AVAILABLE, LEADER_NOT_AVAILABLE = 35, 78, 5
FENCED, UNKNOWN_EPOCH, NOT_LEADER = 74, 75, 6
BASE = 1_700_000_000_000


@pytest.fixture
def tell(ask, held):
    """Error code, timestamp, offset and leader epoch of one partition."""

    def call(timestamp, *, version=11, replica=-1, isolation=0, epoch=-1, index=0, topic="orders"):
        row = ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
        if version < 4:
            row = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        wanted = ListOffsetsTopic(name=topic, partitions=[row])
        request = ListOffsetsRequest(replica_id=replica, isolation_level=isolation, topics=[wanted])
        (found,) = ask(list_offsets, request, version, held.replicas).topics[0].partitions
        return found.error_code, found.timestamp, found.offset, found.leader_epoch

    return call


@pytest.fixture
def orders(held):
    """Five records, one second apart but for the fourth, which is the newest."""
    partition = held.topic("orders")
    for seconds in (0, 1, 2, 9, 3):
        append(held, partition, BASE + 1000 * seconds)
    return partition


def append(held, partition, timestamp, **batch):
    builder = BatchBuilder(**batch)
    builder.append(b"k", b"v", timestamp)
    partition.append(memoryview(builder.build()), -1, held.clock.now_ms(), 13)


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize("timestamp", SINCE)
def test_each_special_timestamp_is_known_since_its_version(tell, orders, version, timestamp):
    orders.delete_records(1)
    found = tell(timestamp, version=version)
    if version < SINCE[timestamp]:
        assert found == (UNSUPPORTED_VERSION, -1, -1, -1)
        return
    epoch = 0 if version >= 4 else -1
    assert (
        found
        == {
            LATEST: (0, -1, 5, epoch),
            EARLIEST: (0, -1, 1, epoch),
            MAX_TIMESTAMP: (0, BASE + 9000, 3, epoch),
            EARLIEST_LOCAL: (0, -1, 1, epoch),
            LATEST_TIERED: (0, -1, -1, -1),
            PENDING_UPLOAD: (0, -1, -1, -1),
        }[timestamp]
    )


@pytest.mark.parametrize("timestamp", [-7, -100, -(2**63)])
def test_a_negative_time_that_means_nothing_is_unsupported(tell, orders, timestamp):
    assert tell(timestamp)[0] == UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("seconds", "offset", "at"),
    [(-10, 0, 0), (0, 0, 0), (0.5, 1, 1), (2, 2, 2), (3, 3, 9), (9, 3, 9), (9.001, -1, None)],
)
def test_a_time_is_answered_by_the_first_record_at_or_after_it(tell, orders, seconds, offset, at):
    timestamp = -1 if at is None else BASE + 1000 * at
    assert tell(BASE + int(1000 * seconds)) == (0, timestamp, offset, 0 if at is not None else -1)


def test_an_empty_log_has_an_end_but_no_times(tell, held):
    held.topic("orders")
    assert [tell(timestamp)[2] for timestamp in (EARLIEST, LATEST, MAX_TIMESTAMP, 0)] == [0, 0, -1, -1]


def test_committed_is_before_the_first_open_transaction_and_everything_for_replicas(tell, held, orders):
    append(held, orders, BASE + 20_000, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    assert tell(LATEST)[2] == 6
    assert tell(LATEST, isolation=1)[2] == 5
    assert tell(MAX_TIMESTAMP)[2] == 5
    assert tell(MAX_TIMESTAMP, isolation=1)[2] == -1
    assert tell(BASE + 10_000, isolation=1)[2] == -1
    orders.high_watermark = 4
    assert tell(LATEST)[2] == 4
    assert tell(LATEST, replica=7)[2] == 6


@pytest.mark.parametrize(("version", "code"), [(4, LEADER_NOT_AVAILABLE), (5, OFFSET_NOT_AVAILABLE)])
def test_a_new_leader_that_has_not_caught_up_does_not_know_its_end(tell, orders, version, code):
    orders.high_watermark = 2
    orders._epoch_start = 5
    assert tell(LATEST, version=version)[0] == code
    assert tell(EARLIEST, version=version)[0] == 0
    assert tell(BASE + 1000, version=version)[2] == 1
    assert tell(BASE + 3000, version=version)[0] == code
    assert tell(LATEST, version=version, replica=-2)[2] == 5


def test_leader_epochs_are_compared_and_only_a_debugger_may_ask_a_follower(tell, orders):
    orders.leader_epoch = 3
    assert [tell(LATEST, epoch=epoch)[0] for epoch in (-1, 2, 3, 4)] == [0, FENCED, 0, UNKNOWN_EPOCH]
    orders.leader = 9
    assert tell(LATEST)[0] == NOT_LEADER
    assert tell(LATEST, replica=-2)[0] == 0
    assert tell(LATEST, replica=-2, epoch=2)[0] == FENCED


def test_what_is_not_there_and_what_is_asked_twice_has_its_own_code(ask, tell, held, orders):
    assert tell(LATEST, topic="nope")[0] == 3
    assert tell(LATEST, index=7)[0] == 3
    row = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    twice = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[row, row])])
    found = ask(list_offsets, twice, 7, held.replicas).topics[0].partitions
    assert [row.error_code for row in found] == [42, 42]


def test_a_disk_that_does_not_read_is_a_storage_error(tell, held, orders):
    held.disk.faults = {"read": "orders-0/"}
    assert tell(BASE + 1000)[0] == 56
    assert tell(LATEST)[0] == 0

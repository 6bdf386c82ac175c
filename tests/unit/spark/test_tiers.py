"""Which segments a read takes from the store: those that the log's own history leads to, each offset once."""

from __future__ import annotations

import pytest

from kavka.catalog.partition import PartitionSegments
from kavka.catalog.segment import RemoteSegment, SegmentState, TopicIdPartition
from kavka.client.fetched import AbortedTransaction
from kavka.model.types import TopicPartition, Uuid
from kavka.spark.connecting import OptionError
from kavka.spark.offsets import Range, plan
from kavka.spark.options import source_options
from kavka.spark.tiers import Located, RemoteStorage, walk

TP = TopicPartition("t", 0)
NAME = TopicIdPartition(Uuid(b"the topic's id.."), 0, "t")
TOPIC = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}


def held(*segments: tuple[int, int, tuple[tuple[int, int], ...]]) -> PartitionSegments:
    found = PartitionSegments(NAME, 0)
    for number, (start, end, epochs) in enumerate(segments):
        id = Uuid(number.to_bytes(16, "big"))
        for state in (SegmentState.COPY_SEGMENT_STARTED, SegmentState.COPY_SEGMENT_FINISHED):
            found.apply(RemoteSegment(id, start, end, 0, 0, 100, 1, epochs, state))
    return found


def edges(held: PartitionSegments, lineage: tuple[tuple[int, int], ...], start: int, end: int) -> list[tuple[int, int]]:
    return [(each.first, each.after) for each in walk(TP, held, lineage, (start, end), None)]


def test_segments_follow_each_other_and_are_cut_to_what_is_wanted() -> None:
    tier = held((0, 9, ((0, 0),)), (10, 19, ((0, 10),)), (20, 29, ((0, 20),)))
    assert edges(tier, ((0, 0),), 5, 25) == [(5, 10), (10, 20), (20, 25)]
    assert edges(tier, ((0, 0),), 25, 99) == [(25, 30)]


def test_overlapping_copies_give_each_offset_once() -> None:
    tier = held((0, 9, ((0, 0),)), (5, 14, ((0, 5),)), (12, 19, ((0, 12),)))
    found = edges(tier, ((0, 0),), 0, 20)
    assert [first for first, _ in found[1:]] == [after for _, after in found[:-1]]
    assert (found[0][0], found[-1][1]) == (0, 20)


def test_a_hole_ends_what_the_store_has() -> None:
    assert edges(held((0, 9, ((0, 0),)), (20, 29, ((0, 20),))), ((0, 0),), 0, 30) == [(0, 10)]


def test_the_tail_of_a_leader_that_was_cut_off_is_not_read() -> None:
    # The leader of epoch 1 copied up to 19; after an unclean election epoch 2 begins at 15.
    tier = held((0, 19, ((1, 0),)), (15, 24, ((2, 15),)))
    assert edges(tier, ((1, 0), (2, 15)), 0, 25) == [(0, 15), (15, 25)]


def test_a_location_holds_all_that_a_task_needs() -> None:
    (file,) = walk(TP, held((0, 9, ((0, 0),))), ((0, 0),), (2, 8), [(7, 0, 1), (7, 3, 6), (8, 7, 30), (9, 9, 31)])
    assert file.location is not None
    located = Located.decode(file.location)
    assert (located.topic_id, located.segment.end_offset) == (NAME.topic_id, 9)
    assert located.aborted == ((7, 3, 6), (8, 7, 30)), "those that touch its offsets"
    assert located.aborted_in(0, 2) == []
    assert located.aborted_in(5, 9) == [AbortedTransaction(7, 3), AbortedTransaction(8, 7)]
    assert Located(NAME.topic_id, located.segment, None).aborted_in(0, 9) is None


def test_a_plan_takes_segments_where_they_are_and_the_leader_for_the_rest() -> None:
    files = walk(TP, held((0, 9, ((0, 0),)), (10, 19, ((0, 10),))), ((0, 0),), (0, 20), None)
    ranges = plan({TP: 5}, {TP: 30}, segments=files)
    assert [(each.start, each.end, each.location is None) for each in ranges] == [
        (5, 10, False),
        (10, 20, False),
        (20, 30, True),
    ]
    assert ranges[-1] == Range(TP, 20, 30)


@pytest.mark.parametrize(
    "name",
    [
        "secret_access_key",
        "AWS_ACCESS_KEY_ID",
        "aws-session-token",
        "azure_storage_account_key",
        "sas_token",
        "account-key",
        "client_secret",
        "token",
        "encryption_key",
    ],
)
def test_credentials_of_the_store_are_refused_in_options_because_those_travel_in_plans(name: str) -> None:
    store = {"kavka.remote.storage.url": "s3://b/p", "kavka.remote.storage.options": f"region=eu, {name}=x"}
    with pytest.raises(OptionError, match=f"{name} is a credential"):
        source_options({**TOPIC, **store}, streaming=False)


def test_a_proxy_takes_no_password_in_options() -> None:
    store = {"kavka.remote.storage.url": "s3://b/p", "kavka.remote.storage.options": "proxy_url=http://u:p@h:1"}
    with pytest.raises(OptionError, match="proxy_url is a credential"):
        source_options({**TOPIC, **store}, streaming=False)
    bare = {**store, "kavka.remote.storage.options": "proxy_url=http://h:1"}
    assert source_options({**TOPIC, **bare}, streaming=False).remote is not None


@pytest.mark.parametrize(
    "name", ["aws_sse_kms_key_id", "bucket_key_enabled", "federated_token_file", "service_account_path"]
)
def test_what_is_no_credential_of_the_store_is_taken(name: str) -> None:
    store = {"kavka.remote.storage.url": "s3://b/p", "kavka.remote.storage.options": f"{name}=x"}
    remote = source_options({**TOPIC, **store}, streaming=False).remote
    assert remote is not None
    assert remote.options == {name: "x"}


def test_the_store_is_named_as_the_nodes_name_it() -> None:
    given = {**TOPIC, "kavka.remote.storage.url": "s3://b/p", "kavka.remote.storage.options": "region=eu, endpoint=x"}
    assert source_options(given, streaming=False).remote == RemoteStorage(
        "s3://b/p", {"region": "eu", "endpoint": "x"}, None
    )
    assert source_options(TOPIC, streaming=False).remote is None
    for wrong in (
        {"kavka.remote.storage.url": "/tmp/x"},
        {"kavka.remote.storage.url": "s3://b", "kavka.remote.storage.options": "region"},
        {"kavka.remote.storage.keys.file": "/keys"},
    ):
        with pytest.raises(OptionError, match=r"kavka\.remote\.storage\."):
            source_options({**TOPIC, **wrong}, streaming=False)

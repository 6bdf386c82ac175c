"""What consumers embed in the classic protocol."""

from __future__ import annotations

import pytest
from coordinator.shards import subscription
from hypothesis import given
from hypothesis import strategies as st

from kavka.coordinator.classic.embedded import (
    read_assignment,
    read_subscription,
    read_topics,
    version_of,
    write_assignment,
)
from kavka.model.errors import MalformedMessage


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_of_any_version_reads(version):
    found = read_subscription(subscription(["a", "b"], {"a": [1]}, version=version, rack="r", generation=5))
    assert found.topics == ["a", "b"]
    assert [one.topic for one in found.owned_partitions] == (["a"] if version >= 1 else [])
    assert (found.generation_id, found.rack_id) == (5 if version >= 2 else -1, "r" if version >= 3 else None)


def test_what_a_later_version_adds_at_the_end_is_passed_over():
    later = (9).to_bytes(2) + subscription(["a"])[2:] + b"more"
    assert version_of(later) == 9
    assert read_subscription(later).topics == read_topics(later) == ["a"]


def test_an_assignment_is_written_at_a_version_that_is_known():
    data = write_assignment({"b": [2, 1], "a": {0}}, 9)
    assert version_of(data) == 3
    found = read_assignment(data)
    assert [(one.topic, one.partitions) for one in found.assigned_partitions] == [("a", [0]), ("b", [1, 2])]
    assert found.user_data is None


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\1\0\0\0\5"])
def test_what_cannot_be_read_is_refused(data):
    with pytest.raises(MalformedMessage):
        read_subscription(data)
    with pytest.raises(MalformedMessage):
        read_topics(data)


@given(st.binary(max_size=40))
def test_no_bytes_do_worse_than_be_malformed(data):
    for read in (read_subscription, read_assignment, read_topics):
        try:
            read(data)
        except MalformedMessage:
            continue

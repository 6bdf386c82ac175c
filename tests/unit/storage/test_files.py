from __future__ import annotations

import pytest

from kavka.model.types import TopicPartition
from kavka.storage.files import (
    DELETE_DIR,
    FUTURE_DIR,
    TIME_INDEX,
    DirName,
    FileName,
    dir_name,
    file_name,
    marked_dir_name,
    parse_dir_name,
    parse_file_name,
)

UNIQUE = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("00000000000000000042.log", FileName(42, ".log", "")),
        ("00000000000000000042.timeindex.swap", FileName(42, ".timeindex", ".swap")),
        ("09223372036854775807.snapshot", FileName(2**63 - 1, ".snapshot", "")),
        ("leader-epoch-checkpoint", None),
        ("partition.metadata", None),
        ("00000000000000000000-0000000001.checkpoint", None),
        ("00000000000000000000", None),
    ],
)
def test_file_names_have_an_offset_a_kind_and_perhaps_a_suffix(name, parts):
    assert parse_file_name(name) == parts


def test_a_made_file_name_parses_back():
    assert parse_file_name(file_name(7, TIME_INDEX, ".cleaned")) == (7, TIME_INDEX, ".cleaned")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", DirName(TopicPartition("orders", 0), "")),
        ("a-b.c_d-12", DirName(TopicPartition("a-b.c_d", 12), "")),
        (f"orders-3.{UNIQUE}-delete", DirName(TopicPartition("orders", 3), "-delete")),
        (f"a-b.c-3.{UNIQUE}-future", DirName(TopicPartition("a-b.c", 3), "-future")),
        (f"orders-3.{UNIQUE}-stray", DirName(TopicPartition("orders", 3), "-stray")),
        ("orders", None),
        ("-1", None),
        ("orders-x", None),
        ("orders-delete", None),
        ("remote-log-index-cache", None),
    ],
)
def test_directory_names_are_topic_and_partition_with_an_optional_mark(name, expected):
    assert parse_dir_name(name) == expected


def test_marked_names_fit_a_file_system_but_future_ones_keep_the_topic():
    tp = TopicPartition("t" * 249, 7)
    assert len(marked_dir_name(tp, UNIQUE, DELETE_DIR)) == 255
    assert marked_dir_name(tp, UNIQUE, FUTURE_DIR).startswith("t" * 249 + "-7.")
    assert dir_name(tp) == "t" * 249 + "-7"


@pytest.mark.parametrize("name", ["99999999999999999999.log", "09223372036854775808.log", f"{'1' * 5000}.log"])
def test_an_offset_that_no_log_comes_to_names_no_segment(name: str) -> None:
    assert parse_file_name(name) is None
    assert parse_file_name("09223372036854775807.log") is not None

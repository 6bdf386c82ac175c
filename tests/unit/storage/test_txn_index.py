from __future__ import annotations

import struct

import pytest

from kavka.model.errors import KafkaStorageError
from kavka.storage.txn_index import AbortedTransaction, TransactionIndex

FIRST = AbortedTransaction(7, 10, 20, 15)
SECOND = AbortedTransaction(8, 12, 30, 31)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.txnindex"


def test_the_file_comes_with_the_first_abort(disk, path):
    index = TransactionIndex(disk, str(path))
    assert index.entries() == []
    assert index.file is None
    assert not path.exists()
    index.append(FIRST)
    assert path.read_bytes() == struct.pack(">hqqqq", 0, 7, 10, 20, 15)
    assert len(path.read_bytes()) == 34


def test_entries_are_found_again(disk, path):
    index = TransactionIndex(disk, str(path))
    index.append(FIRST)
    index.append(SECOND)
    assert TransactionIndex(disk, str(path)).entries() == [FIRST, SECOND]


def test_truncating_forgets_aborts_whose_markers_go(disk, path):
    index = TransactionIndex(disk, str(path))
    index.append(FIRST)
    index.append(SECOND)
    index.truncate_to(30)
    assert index.entries() == [FIRST]
    index.truncate_to(20)
    assert index.entries() == []
    index.append(SECOND)
    index.reset()
    assert index.entries() == []
    assert path.stat().st_size == 0


def test_a_torn_entry_is_left_out_and_written_over(disk, path):
    TransactionIndex(disk, str(path)).append(FIRST)
    path.write_bytes(path.read_bytes() + b"\0\0\7")
    index = TransactionIndex(disk, str(path))
    assert index.entries() == [FIRST]
    index.append(SECOND)
    assert TransactionIndex(disk, str(path)).entries() == [FIRST, SECOND]


def test_an_entry_of_a_newer_version_is_refused_by_name(disk, path):
    path.write_bytes(struct.pack(">hqqqq", 1, 7, 10, 20, 15))
    with pytest.raises(KafkaStorageError, match=r"x\.txnindex.*version 1"):
        TransactionIndex(disk, str(path)).entries()

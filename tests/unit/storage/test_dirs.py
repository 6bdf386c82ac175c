from __future__ import annotations

import pytest

from kavka.model.errors import KafkaStorageError
from kavka.model.types import Uuid
from kavka.storage.dirs import (
    MetaProperties,
    encode_partition_metadata,
    lock_dir,
    parse_properties,
    read_meta_properties,
    read_partition_metadata,
    take_clean_shutdown,
    write_clean_shutdown,
    write_meta_properties,
)

ID = Uuid(bytes(range(16)))


def test_meta_properties_read_back(disk, tmp_path):
    meta = MetaProperties("MkU3OEVBNTcwNTJENDM2Qg", 7, ID)
    write_meta_properties(disk, str(tmp_path), meta)
    assert read_meta_properties(disk, str(tmp_path)) == meta
    assert "version=1\n" in (tmp_path / "meta.properties").read_text()


def test_a_file_that_a_jvm_broker_wrote_is_understood(disk, tmp_path):
    (tmp_path / "meta.properties").write_text(
        "#\n#Tue Jun 17 14:29:00 UTC 2025\ncluster.id=a\\=b\\:c\ndirectory.id=" + str(ID) + "\nnode.id=1\nversion=1\n"
    )
    assert read_meta_properties(disk, str(tmp_path)) == MetaProperties("a=b:c", 1, ID)


def test_odd_cluster_ids_survive(disk, tmp_path):
    meta = MetaProperties(" a=b:c#d!e\\f", 1)
    write_meta_properties(disk, str(tmp_path), meta)
    assert read_meta_properties(disk, str(tmp_path)) == meta


def test_an_unformatted_directory_has_none(disk, tmp_path):
    assert read_meta_properties(disk, str(tmp_path)) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version=0\nbroker.id=1\n", "version 0"),
        ("broker.id=1\n", "version 0"),
        ("version=2\n", "version 2"),
        ("version=1\nnode.id=1\n", "lacks cluster.id"),
        ("version=1\ncluster.id=x\n", "lacks node.id"),
        ("version=1\ncluster.id=x\nnode.id=one\n", "malformed"),
        ("version=1\ncluster.id=x\nnode.id=1\ndirectory.id=short\n", "malformed"),
    ],
)
def test_a_foreign_or_damaged_file_is_refused(disk, tmp_path, text, message):
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(KafkaStorageError, match=message):
        read_meta_properties(disk, str(tmp_path))


def test_properties_follow_javas_rules():
    text = "! a comment\n key : value with spaces\na=1\\\n   2\nb\\u0041=\\t\nempty\n"
    assert parse_properties(text) == {"key": "value with spaces", "a": "12", "bA": "\t", "empty": ""}


def test_a_clean_stop_is_known_once(disk, tmp_path):
    write_clean_shutdown(disk, str(tmp_path), 41)
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":41}'
    assert take_clean_shutdown(disk, str(tmp_path)) == 41
    assert take_clean_shutdown(disk, str(tmp_path)) is None


def test_a_marker_without_an_epoch_is_still_a_clean_stop(disk, tmp_path):
    (tmp_path / ".kafka_cleanshutdown").write_bytes(b"")
    assert take_clean_shutdown(disk, str(tmp_path)) == -1


def test_a_directory_in_use_is_refused_by_name(disk, tmp_path):
    lock = lock_dir(disk, str(tmp_path))
    with pytest.raises(KafkaStorageError, match="in use by another node"):
        lock_dir(disk, str(tmp_path))
    lock.release()
    lock_dir(disk, str(tmp_path)).release()


def test_a_partitions_topic_id_reads_back(disk, tmp_path):
    assert read_partition_metadata(disk, str(tmp_path)) is None
    (tmp_path / "partition.metadata").write_bytes(encode_partition_metadata(ID))
    assert (tmp_path / "partition.metadata").read_text() == f"version: 0\ntopic_id: {ID}"
    assert read_partition_metadata(disk, str(tmp_path)) == ID


@pytest.mark.parametrize(
    "text", ["", "version: 0\n", "version: 0\ntopic_id: x\n", f"version: 0\ntopic_id: {Uuid.ZERO}"]
)
def test_a_damaged_topic_id_is_refused(disk, tmp_path, text):
    (tmp_path / "partition.metadata").write_text(text)
    with pytest.raises(KafkaStorageError, match="topic id"):
        read_partition_metadata(disk, str(tmp_path))

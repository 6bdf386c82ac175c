from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.storage.disk import RealDisk
from kavka.storage.scan import BatchScan, read_marker


def scanned(disk, path, data, end=None, **options):
    file = disk.create(str(path))
    file.write_at(0, [data], len(data))
    scan = BatchScan(file, 0, len(data) if end is None else end, **options)
    found = [(start + info.position, info.base_offset) for start, _, infos in scan for info in infos]
    return found, scan.position, scan.reason


def test_batches_are_found_whatever_the_chunk_size(kit, disk, tmp_path):
    batches = [kit.batch(base_offset=n, value=b"v" * (n * 37)) for n in range(20)]
    data = b"".join(batches)
    expected = scanned(disk, tmp_path / "a", data)
    assert [offset for _, offset in expected[0]] == list(range(20))
    assert expected[1:] == (len(data), None)
    for chunk_bytes in (1, 12, 61, 100, 1000):
        assert scanned(disk, tmp_path / "a", data, chunk_bytes=chunk_bytes) == expected


def test_a_file_shorter_than_it_should_be_is_truncated_not_endless(kit, disk, tmp_path):
    data = kit.batch() + kit.batch(base_offset=1)
    found, position, reason = scanned(disk, tmp_path / "a", data[:-1], end=len(data))
    assert (len(found), position) == (1, len(kit.batch()))
    assert reason is not None
    assert scanned(disk, tmp_path / "a", b"", end=100)[2] is not None


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_damage_anywhere_ends_the_scan_before_it(kit_batches, data):
    batches, path = kit_batches
    whole = bytearray(b"".join(batches))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    chunk = data.draw(st.sampled_from([64, 300, 1 << 20]))
    found, position, _ = scanned(RealDisk(), path, bytes(whole), check_crc=True, chunk_bytes=chunk)
    starts = [sum(map(len, batches[:n])) for n in range(len(batches))]
    hit = max(n for n, start in enumerate(starts) if start <= at)
    if (at - starts[hit]) in (*range(8), *range(12, 16)):
        return  # the base offset and the leader epoch are not covered by any checksum
    assert [start for start, _ in found] == starts[:hit]
    assert position == starts[hit]


@pytest.fixture(scope="module")
def kit_batches(tmp_path_factory):
    from kavka.records.builder import BatchBuilder

    batches = []
    for number in range(6):
        builder = BatchBuilder(base_offset=number)
        builder.append(b"k", b"v" * number * 50, 1)
        batches.append(builder.build())
    return batches, tmp_path_factory.mktemp("scan") / "file"


def test_a_marker_is_read_from_its_batch(kit):
    from kavka.kernels.batches import scan
    from kavka.records.builder import empty_batch
    from kavka.records.control import txn_marker_batch

    data = txn_marker_batch(commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=7, timestamp=9)
    (info,) = scan(data)
    assert read_marker(data, info) == (True, 7, 9)
    emptied = empty_batch(info)
    assert read_marker(emptied, scan(emptied)[0]) is None

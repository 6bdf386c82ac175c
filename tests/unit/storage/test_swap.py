from __future__ import annotations

from pathlib import Path

import pytest

from kavka.storage.cleaning import assess, make_plan, take_in
from kavka.storage.compaction import compact
from kavka.storage.disk import RealDisk, RealFile
from kavka.storage.swap import finish_interrupted

NOW = 1_700_000_000_000


class Stop(Exception):  # noqa: N818
    """The machine stops here."""


class StoppingFile(RealFile):
    __slots__ = ()

    def rename(self, path):
        self._disk.step()
        super().rename(path)

    def unlink(self):
        self._disk.step()
        super().unlink()


class StoppingDisk(RealDisk):
    """Stops before the given change of names."""

    __slots__ = ("left",)

    def __init__(self):
        super().__init__(max_open=16)
        self.left = None

    def step(self):
        if self.left is not None:
            if self.left == 0:
                raise Stop
            self.left -= 1

    def file(self, path):
        return StoppingFile(self, path)

    def create(self, path):
        super().create(path).close()
        return StoppingFile(self, path)

    def rename(self, source, target):
        self.step()
        super().rename(source, target)

    def unlink(self, path):
        self.step()
        super().unlink(path)


def prepare(kit):
    """Two groups of two segments each, compacted but not swapped in; an aborted transaction among them."""
    kit.create(compact=True, delete=False, segment_bytes=400)
    for number in range(8):
        kit.append(key=b"%d" % (number % 2), value=b"%d" % number * 20)
        if number == 2:
            kit.append(pid=5, txn=True, key=b"0", value=b"aborted")
            kit.end_txn(5, commit=False)
        if number % 2:
            kit.log.roll(NOW)
    kit.append(key=b"end", value=b"end")
    kit.log.roll(NOW)
    plan = make_plan(assess(kit.log, None, kit.log.log_end_offset, NOW), NOW, 1 << 16)
    result = compact(kit.disk, plan)
    assert len(result.groups) > 1
    return plan, result


def visible(kit):
    """The last value of each key that is not aborted: what compaction must never change."""
    aborted = {(txn.producer_id, txn.first_offset) for txn in kit.log.aborted_transactions(0, 1 << 40)}
    latest = {}
    for info, record in ((i, r) for i in kit.batches() for r in kit.records() if i.base_offset == r.offset):
        if not info.is_control and not any(info.producer_id == pid for pid, _ in aborted):
            latest[record.key] = record.value
    return latest


def test_stopping_at_any_step_of_a_swap_loses_nothing(tmp_path_factory, kit):
    steps = 0
    while True:
        kit.__init__(tmp_path_factory.mktemp("log"), StoppingDisk())
        plan, result = prepare(kit)
        expected, end = visible(kit), kit.log.log_end_offset
        kit.disk.left = steps
        try:
            take_in(kit.log, plan, result, NOW)
        except Stop:
            stopped = True
        else:
            stopped = False
        kit.disk = RealDisk(max_open=16)
        kit.load(recovery_point=end)
        assert visible(kit) == expected, f"stopped before step {steps}"
        assert kit.log.log_end_offset == end
        assert not any(name.endswith((".cleaned", ".swap", ".deleted")) for name in kit.names())
        again = kit.offsets()
        kit.load(clean=True)
        assert kit.offsets() == again
        if not stopped:
            break
        steps += 1
    assert steps > 15


def test_stopping_while_a_swap_is_completed_at_start_loses_nothing(tmp_path_factory, kit):
    for first in range(4, 16, 3):
        steps = 0
        while True:
            kit.__init__(tmp_path_factory.mktemp("log"), StoppingDisk())
            plan, result = prepare(kit)
            expected, end = visible(kit), kit.log.log_end_offset
            kit.disk.left = first
            with pytest.raises(Stop):
                take_in(kit.log, plan, result, NOW)
            kit.disk.left = steps
            try:
                finish_interrupted(kit.disk, kit.path, kit.names())
            except Stop:
                stopped = True
            else:
                stopped = False
            kit.disk = RealDisk(max_open=16)
            kit.load(recovery_point=end)
            assert visible(kit) == expected, f"stopped before step {first}, then {steps}"
            if not stopped:
                break
            steps += 1


def test_an_orphan_of_an_interrupted_compaction_is_removed_and_noted(kit):
    prepare(kit)
    report = kit.load()
    assert any("interrupted compaction" in note for note in report.notes)
    assert not any(name.endswith(".cleaned") for name in kit.names())


def test_a_stale_transaction_index_does_not_outlive_its_segment(kit):
    kit.create(compact=True, delete=False)
    kit.append(pid=5, txn=True, key=b"a")
    kit.end_txn(5, commit=False)
    kit.append(key=b"z")
    kit.log.producers.clear()  # else the producer's last batch would stay, emptied, and count as data
    for _ in range(2):
        kit.log.roll(NOW)
        plan = make_plan(assess(kit.log, None, kit.log.log_end_offset, NOW), NOW, 1 << 16)
        take_in(kit.log, plan, compact(kit.disk, plan), NOW)
        kit.append(key=b"y")
    kit.log.purge(NOW * 2)
    assert not list(Path(kit.path).glob(f"{0:020d}.txnindex"))

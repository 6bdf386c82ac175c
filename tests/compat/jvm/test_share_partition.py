"""Share partitions against Kafka's own class: the same steps, the same records to the same members, the same writes.

Left out is where we do otherwise (docs/decisions/0013): compaction of what is in flight, aborted transactions, and a
log start amid a batch or amid a write.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from kavka.model.errors import KafkaError
from kavka.model.share import StateBatch
from kavka.share.acquiring import DeliveryLimits, LogBatch, Wanted
from kavka.share.partition import Acknowledgement, SharePartition, StateWrite

if TYPE_CHECKING:
    from jvm.java_tools import Java

DRIVER = "kafka.server.share.PlaySharePartition"
SCRIPTS, STEPS = 150, 60


class Script:
    """Random steps on a share partition of ours: the lines for Kafka's, and what it must say."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.lines: list[str] = []
        self.said: list[str] = []
        self.now_ms = 1000
        self.limits = DeliveryLimits(self.random.randint(5, 60), self.random.randint(2, 6), 100)
        self.log: list[LogBatch] = []
        self.log_end = 0
        self.writes: list[StateWrite] = []
        self.begin()
        for _ in range(STEPS):
            self.random.choice([self.append, self.fetch, self.fetch, self.acknowledge, self.acknowledge, self.finish,
                                self.finish, self.release, self.wait, self.move_start])()  # fmt: skip

    def begin(self) -> None:
        start, at = self.random.randint(0, 3), 0
        states = []
        if self.random.random() < 0.5:
            at = start
            for _ in range(self.random.randint(0, 4)):
                at += self.random.choice([0, 0, 3])
                last = at + self.random.randint(0, 5)
                states.append(StateBatch(at, last, self.random.choice([0, 2, 4]), self.random.randint(1, 2)))
                at = last + 1
        while self.log_end < at:
            self.append()
        self.partition = SharePartition.load(1, 1, start, states)
        persisted = "".join(f" {a}:{b}:{c}:{d}" for a, b, c, d in states)
        self.step(f"new {start} {self.limits.max_record_locks} {self.limits.delivery_count} 100{persisted}", "")

    def step(self, line: str, said: str) -> None:
        window = self.partition.window
        shown = [f"{window.next_fetch_offset()} {window.start_offset} {window.end_offset} {window.complete_count}"]
        for batch in window.batches:
            for first, last, held in batch.parts():
                shown += [
                    f"{offset}:{held.state}:{held.count}:{held.member}"
                    for offset in range(max(first, window.start_offset), last + 1)
                ]
        self.lines.append(line)
        self.said.append(f"{said} | {' '.join(shown)}")

    def append(self) -> None:
        first = self.log_end + self.random.choice([0, 0, 0, 0, 3])
        self.log_end = first + self.random.randint(1, 8)
        self.log.append(LogBatch(first, self.log_end - 1))

    def fetch(self) -> None:
        offset = self.partition.next_fetch_offset()
        read = [each for each in self.log if each.last_offset >= offset][: self.random.randint(1, 5)]
        if not read or not self.partition.can_acquire(self.limits):
            return
        gone = any(
            batch.first < read[0].base_offset and batch.last >= offset for batch in self.partition.window.batches
        )
        if gone and read[0].base_offset > offset:
            return  # a hole in the log where there was none
        member, mode = self.random.choice("abc"), self.random.randint(0, 1)
        size, most = self.random.randint(1, 8), self.random.randint(1, 20)
        got = self.partition.acquire(Wanted(member, most, size, mode), offset, read, self.limits, self.now_ms)
        batches = ",".join(f"{a}-{b}" for a, b in read)
        said = ",".join(f"{a}-{b}:{c}" for a, b, c in got)
        self.step(f"acquire {member} {mode} {size} {most} {offset} {batches}", said)

    def acknowledge(self) -> None:
        offsets = [o for batch in self.partition.window.batches for o in range(batch.first, batch.last + 1)]
        if not offsets:
            return
        said = []
        for _ in range(self.random.randint(1, 2)):
            first = self.random.choice(offsets)
            last = first + self.random.randint(0, 6)
            count = self.random.choice([1, last - first + 1])
            types = [self.random.choice([0, 1, 1, 1, 2, 2, 3, 4]) for _ in range(count)]
            said.append(Acknowledgement(first, last, types))
        member = self.random.choice("abc")
        spelled = " ".join(f"{a}:{b}:{','.join(map(str, c))}" for a, b, c, _ in said)
        try:
            write = self.partition.acknowledge(member, said, self.limits, self.now_ms)
        except KafkaError as refused:
            self.step(f"acknowledge {member} {spelled}", f"refused {refused.code}")
            return
        self.written(f"acknowledge {member} {spelled}", write)

    def release(self) -> None:
        member = self.random.choice("abc")
        self.written(f"release {member}", self.partition.release(member, self.limits))

    def written(self, line: str, write: StateWrite | None) -> None:
        batches = () if write is None else write.batches
        said = [f"{o}:{state}:{count}" for a, b, state, count in batches for o in range(a, b + 1)]
        self.step(line, ",".join(said))
        if write is not None:
            self.writes.append(write)

    def finish(self) -> None:
        if self.writes:
            at = self.random.randrange(len(self.writes))
            write = self.writes.pop(at)
            # What is before the start would be available again in Kafka, where nobody can read it.
            gone = any(batch.first_offset < self.partition.window.start_offset for batch in write.batches)
            well = gone or self.random.random() < 0.8
            if well:
                self.partition.written(write)
            else:
                self.partition.unwritten(write, self.now_ms)
            self.step(f"finish {at} {'well' if well else 'badly'}", "")

    def wait(self) -> None:
        ms = self.random.randint(1, 70)
        self.now_ms += ms
        taken = self.partition.expire(self.limits, self.now_ms)
        if taken is not None:
            self.partition.written(taken)
        self.step(f"wait {ms}", "")

    def move_start(self) -> None:
        if self.writes or len(self.log) < 3 or self.partition.window.has_gaps or self.random.random() < 0.7:
            return
        del self.log[0]
        self.partition.log_start_moved(self.log[0].base_offset)
        self.step(f"start {self.log[0].base_offset}", "")


@pytest.mark.parametrize("seed", range(4))
def test_a_share_partition_does_what_kafkas_does(java: Java, seed: int) -> None:
    scripts = [Script(seed * SCRIPTS + each) for each in range(SCRIPTS)]
    lines = [line for script in scripts for line in script.lines]
    expected = [line for script in scripts for line in script.said]
    outcome = java.run_alone(DRIVER, [], "\n".join(lines).encode() + b"\n", timeout=120)
    assert outcome.status == 0, outcome.err
    found = outcome.out.splitlines()
    for at, (ours, kafkas) in enumerate(zip(expected, found, strict=True)):
        steps = zip(lines[max(0, at - 8) : at + 1], expected[max(0, at - 8) : at + 1], strict=True)
        told = [f"{line}\n    -> {said}" for line, said in steps]
        assert ours.strip() == kafkas.strip(), "\n".join(["", *told, f"Kafka says\n    -> {kafkas}"])

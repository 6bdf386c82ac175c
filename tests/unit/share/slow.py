"""A share partition as slow and as obvious as can be: a dictionary with a state for every offset."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

from kavka.model.errors import InvalidRecordState, InvalidRequest

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = 0, 1, 2, 4
OF_TYPE = {0: ARCHIVED, 1: ACKNOWLEDGED, 2: AVAILABLE, 3: ARCHIVED}


@dataclass
class Record:
    batch: tuple[int, int]
    state: int
    count: int
    member: str = ""
    deadline: int = -1
    undo: str | None = None

    @property
    def free(self):
        return self.state == AVAILABLE and self.undo is None

    @property
    def settled(self):
        return self.state in (ACKNOWLEDGED, ARCHIVED) and self.undo is None


@dataclass
class Slow:
    start: int
    end: int = field(init=False)
    records: dict[int, Record] = field(default_factory=dict)
    gap: tuple[int, int] | None = None

    def __post_init__(self):
        self.end = self.start

    @classmethod
    def load(cls, start, states):
        slow = cls(start)
        expected = start
        for first, last, state, count in states:
            if first > expected and slow.gap is None:
                slow.gap = (expected, 0)
            expected = last + 1
            for offset in range(first, last + 1):
                slow.records[offset] = Record((first, last), state, count)
        if slow.records:
            slow.end = max(slow.records)
            if slow.gap is not None:
                slow.gap = (slow.gap[0], slow.end)
            slow.move_start()
        return slow

    # -- looking --

    @property
    def gaps(self):
        return self.gap is not None and self.gap[1] == self.end

    @property
    def gap_start(self):
        return -1 if self.gap is None else self.gap[0]

    @property
    def batches(self):
        return sorted({record.batch for record in self.records.values()})

    @property
    def complete(self):
        return sum(o >= self.start and r.state in (ACKNOWLEDGED, ARCHIVED) for o, r in self.records.items())

    @property
    def in_flight(self):
        return self.end - self.start + 1 if self.records else 0

    def next(self):
        if not self.records or self.start > max(self.records):
            return self.end
        found = [offset for offset, record in self.records.items() if record.free]
        if self.gaps:
            found += [o for o in range(self.gap_start, max(self.records)) if o not in self.records]
        return min(found, default=self.end + 1)

    def states(self):
        return {o: (r.state, r.count, r.member, r.undo) for o, r in self.records.items()}

    # -- acquiring --

    def acquire(self, *asked):
        got = self.acquire_some(*asked)
        if not got:
            self.move_start()
        return got

    def acquire_some(self, member, record_limit, batch_size, max_records, fetch, read, limits, now, aborted):
        locks, limit, lock_ms = limits[:3]
        last = read[-1][1]
        if max_records <= 0 or last < self.start:
            return []
        most = min(max_records, locks - self.in_flight)
        if most <= 0:
            if fetch > self.end:
                return []
            most, last = min(max_records, self.end - fetch + 1), min(last, self.end)
        base = read[0][0]
        for offset, record in self.records.items():
            if fetch <= offset < base and record.state == AVAILABLE:
                self.archive(record)
        narrow_from = max(2, -(-limit // 2))
        got: list[tuple[int, int, int]] = []

        def left():
            return most - sum(high - low + 1 for low, high, _ in got)

        def new(low, high):
            if not self.records:
                low = max(low, self.end)
            if low > high:
                return
            room = left()
            if room < high - low + 1:
                end = low + room - 1
                whole = next((b for b in read if b[0] <= end <= b[1]), (end, end))[1]
                high = min(high, whole) if self.gaps else whole
            until = min(high, low + room - 1) if record_limit else high
            cuts = [low]
            if not record_limit and high - low + 1 > batch_size:
                for begin, _ in read:
                    if begin <= high and begin - cuts[-1] >= batch_size:
                        cuts.append(begin)
            for first, end in zip(cuts, [cut - 1 for cut in cuts[1:]] + [high], strict=True):
                for offset in range(first, end + 1):
                    taken = offset <= until
                    self.records[offset] = Record(
                        (first, end), int(taken), int(taken), member if taken else "", now + lock_ms if taken else -1
                    )
                got.append((first, min(end, until), 1))
            if min(self.records) == low:
                self.start = low
            self.end = max(self.end, high)
            self.read_until(until + 1)

        overlap = [b for b in self.batches if b[0] <= base <= b[1]]
        base = overlap[0][0] if overlap else max(base, self.start)
        known = [b for b in self.batches if min(read[0][0], base) <= b[0] <= last]
        if not known:
            new(base, last)
        else:
            alone = False
            for batch in known:
                if left() <= 0:
                    break
                if self.gaps:
                    if base < batch[0]:
                        new(base, batch[0] - 1)
                    base = batch[1] + 1
                    if left() <= 0:
                        break
                free = [
                    o
                    for o in range(max(batch[0], read[0][0]), min(batch[1], last) + 1)
                    if o in self.records and self.records[o].batch == batch and self.records[o].free
                ]
                narrow = any(self.records[o].count >= narrow_from for o in free)
                if narrow and got:
                    alone = True
                    break
                taken = self.take(free, batch, member, left() if record_limit else None, limit, narrow_from)
                for offset in taken:
                    self.records[offset].deadline = now + lock_ms
                got += [(g[0], g[-1], self.records[g[0]].count) for g in self.runs(taken)]
                if narrow and taken:
                    alone = True
                    break
            if not alone and left() > 0 and known[-1][1] < last:
                new(known[-1][1] + 1, last)
            if got:
                self.read_until(got[-1][1] + 1)
        return self.cut(got, aborted)

    def take(self, free, batch, member, room, limit, narrow_from):
        taken: list[int] = []
        narrowed = None
        for offset in free:
            record = self.records[offset]
            if limit > 2 and record.count == limit - 1 and taken:
                break
            if record.count >= narrow_from and narrowed is None:
                narrowed = max(1, (batch[1] - batch[0] + 1) >> (record.count - narrow_from + 1))
            record.state, record.member = ACQUIRED, member
            record.count += 1
            taken.append(offset)
            if (limit > 2 and record.count == limit) or len(taken) in (room, narrowed):
                break
        return taken

    def runs(self, offsets):
        keyed = [(o - i, self.records[o].count, o) for i, o in enumerate(offsets)]
        return [[o for _, _, o in group] for _, group in groupby(keyed, key=lambda k: k[:2])]

    def cut(self, got, aborted):
        if not got:
            return []
        gone = {o for low, high in aborted for o in range(low, high + 1)}
        for offset in gone & set(self.records):
            if self.records[offset].state == ACQUIRED:
                self.archive(self.records[offset])
        kept = []
        for low, high, count in got:
            offsets = [o for o in range(low, high + 1) if o not in gone]
            for _, group in groupby(enumerate(offsets), key=lambda pair: pair[1] - pair[0]):
                each = [o for _, o in group]
                kept.append((each[0], each[-1], count))
        return kept

    def read_until(self, offset):
        self.gap = (offset, self.end) if self.gaps and offset <= self.end else None

    def archive(self, record):
        record.state, record.member, record.deadline, record.undo = ARCHIVED, "", -1, None

    # -- giving back --

    def acknowledge(self, member, said, limits, now):
        touched = []
        try:
            for first, last, types in said:
                if last < self.start:
                    continue
                self.check(first, last)
                for offset in range(max(first, self.start), last + 1):
                    record = self.records.get(offset)
                    if record is None:
                        continue
                    if record.state != ACQUIRED or record.member != member:
                        raise InvalidRecordState("")
                    kind = types[0] if len(types) == 1 else types[offset - first]
                    if kind == 4:
                        if not limits.renew:
                            raise InvalidRecordState("")
                        record.deadline = now + limits.lock_ms
                    else:
                        self.change(record, OF_TYPE[kind], limits.delivery_count)
                        touched.append(offset)
        except (InvalidRecordState, InvalidRequest):
            for offset in touched:
                record = self.records[offset]
                record.state, record.member, record.undo = ACQUIRED, member, None
            raise
        return touched

    def check(self, first, last):
        begin = self.start if first < self.start <= last else first
        if not any(b[0] <= max(first, begin) for b in self.batches):
            raise InvalidRecordState("")
        if last > max(b[1] for b in self.batches if b[0] <= last):
            raise InvalidRequest("")

    def change(self, record, state, limit):
        record.undo = record.member
        record.state = ARCHIVED if state == AVAILABLE and record.count >= limit else state
        record.member = ""

    def release(self, member, limits):
        mine = [o for o, r in self.records.items() if r.state == ACQUIRED and r.member == member]
        for offset in mine:
            self.change(self.records[offset], AVAILABLE if offset >= self.start else ARCHIVED, limits.delivery_count)
        return mine

    def expire(self, limits, now):
        due = [o for o, r in self.records.items() if r.state == ACQUIRED and r.deadline <= now]
        for offset in due:
            self.change(self.records[offset], AVAILABLE if offset >= self.start else ARCHIVED, limits.delivery_count)
            self.records[offset].undo = None
            self.records[offset].deadline = -1
        return due

    def written(self, touched):
        for record in touched:
            if record.undo is not None:
                record.undo, record.deadline = None, -1
        self.move_start()

    def unwritten(self, touched, limit, now):
        for offset, record in touched:
            if record.undo is None:
                continue
            if record.deadline <= now:
                record.state = ARCHIVED if record.count >= limit or offset < self.start else AVAILABLE
                record.deadline = -1
            else:
                record.state, record.member = ACQUIRED, record.undo
            record.undo = None

    def log_start_moved(self, offset):
        if offset <= self.start:
            return
        if not self.records:
            self.start = self.end = offset
            return
        for at, record in self.records.items():
            if at < offset and record.state == AVAILABLE:
                self.archive(record)
        self.start = offset
        self.end = max(self.end, offset)

    def move_start(self):
        floor = [b for b in self.batches if b[0] <= self.start]
        if not floor or not self.records[min(self.start, floor[-1][1])].settled:
            return
        last = -1
        for offset in sorted(self.records):
            if not self.records[offset].settled:
                break
            if self.gaps and self.records[offset].batch[1] >= self.gap_start:
                break
            last = offset
        if last < 0:
            return
        if last == max(self.records):
            self.records.clear()
            self.start = self.end = last + 1
            return
        keep = self.records[last].batch[0]
        start = last + 1
        if self.records[last].batch[1] == last:
            keep = start = min(o for o in self.records if o > last)
        self.start = max(self.start, start)
        if keep == start and self.gaps:
            self.start = min(self.start, self.gap_start)
        self.records = {o: r for o, r in self.records.items() if o >= keep}

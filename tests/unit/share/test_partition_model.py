"""Whatever happens to a share partition, it is what the slow and obvious one says."""

from __future__ import annotations

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kavka.model.errors import KafkaError
from kavka.model.share import ACQUIRED, StateBatch
from kavka.share.acquiring import DeliveryLimits, LogBatch, Wanted
from kavka.share.partition import Acknowledgement, SharePartition

from .slow import Slow

MEMBERS = st.sampled_from(["a", "b", "c"])
TYPES = st.sampled_from([0, 1, 1, 1, 2, 2, 3, 4])


class Either(RuleBasedStateMachine):
    """The machine beside the slow one: the same log, the same coordinator, the same clock."""

    @initialize(
        start=st.integers(0, 3),
        locks=st.integers(3, 40),
        deliveries=st.integers(1, 6),
        renew=st.booleans(),
    )
    def begin(self, start, locks, deliveries, renew):
        self.limits = DeliveryLimits(locks, deliveries, 100, renew)
        self.now = 1000
        self.log: list[tuple[int, int]] = []
        self.aborted: set[tuple[int, int]] = set()
        self.log_start, self.log_end = start, start
        self.persisted: tuple[int, dict[int, tuple[int, int]]] = (start, {})
        self.writes = []
        self.load()
        for size in (3, 1, 8, 2, 5, 4, 1, 6):  # so that there is something to fetch from the first step on
            self.extend(size, 0)

    def load(self):
        start, states = self.persisted
        batches = [StateBatch(o, o, *states[o]) for o in sorted(states) if o >= start]
        self.partition = SharePartition.load(1, 1, start, batches)
        self.slow = Slow.load(start, batches)
        self.writes.clear()

    # -- the world --

    @rule(size=st.integers(1, 8), hole=st.sampled_from([0, 0, 0, 2]), aborted=st.sampled_from([False] * 5 + [True]))
    def append(self, size, hole, aborted):
        self.extend(size, hole)
        if aborted:
            self.aborted.add(self.log[-1])

    def extend(self, size, hole):
        first = self.log_end + hole
        self.log.append((first, first + size - 1))
        self.log_end = first + size

    @precondition(lambda self: len(self.log) > 1)
    @rule(data=st.data())
    def compact(self, data):
        del self.log[data.draw(st.integers(0, len(self.log) - 2))]

    @rule(ahead=st.integers(1, 12))
    def move_log_start(self, ahead):
        self.log_start = min(self.log_start + ahead, self.log_end)
        self.log = [each for each in self.log if each[1] >= self.log_start]
        self.partition.log_start_moved(self.log_start)
        self.slow.log_start_moved(self.log_start)

    @rule(ms=st.integers(1, 130))
    def wait(self, ms):
        self.now += ms
        taken = self.partition.expire(self.limits, self.now)
        due = self.slow.expire(self.limits, self.now)
        assert offsets_of(taken) == {o: (self.slow.records[o].state, self.slow.records[o].count) for o in due}
        if taken is not None:
            self.writes.append((taken, [], []))

    @rule(data=st.data())
    def change_leader(self, data):
        while self.writes and data.draw(st.booleans()):
            self.persist(self.writes.pop(0)[0])
        self.load()

    @rule(locks=st.integers(3, 40), deliveries=st.integers(1, 6))
    def set_limits(self, locks, deliveries):
        self.limits = self.limits._replace(max_record_locks=locks, delivery_count=deliveries)

    # -- members --

    @rule(
        member=MEMBERS,
        most=st.integers(1, 20),
        size=st.integers(1, 8),
        mode=st.integers(0, 1),
        count=st.integers(1, 6),
        committed=st.booleans(),
    )
    def fetch(self, member, most, size, mode, count, committed):
        offset = self.partition.next_fetch_offset()
        read = [each for each in self.log if each[1] >= offset][:count]
        if not read or offset < self.log_start or not self.partition.can_acquire(self.limits):
            return
        aborted = sorted(self.aborted & set(read)) if committed else []
        batches = [LogBatch(*each) for each in read]
        got = self.partition.acquire(Wanted(member, most, size, mode), offset, batches, self.limits, self.now, aborted)
        assert got == self.slow.acquire(member, mode, size, most, offset, read, self.limits, self.now, aborted)
        taken = sum(high - low + 1 for low, high, _ in got)
        assert not mode or taken <= most
        assert all(count >= 1 for _, _, count in got)

    @precondition(lambda self: self.slow.records)
    @rule(member=MEMBERS, data=st.data())
    def acknowledge(self, member, data):
        mine = [o for o, r in self.slow.records.items() if r.member == member]
        said = []
        for _ in range(data.draw(st.integers(1, 2))):
            known = sorted(self.slow.records)
            first = data.draw(st.sampled_from(mine or known) | st.sampled_from(known))
            last = first + data.draw(st.integers(0, 6))
            count = data.draw(st.sampled_from([1, last - first + 1]))
            types = data.draw(st.lists(TYPES, min_size=count, max_size=count))
            said.append((first, last, types))
        self.settle(
            lambda: self.partition.acknowledge(member, [Acknowledgement(*s) for s in said], self.limits, self.now),
            lambda: self.slow.acknowledge(member, said, self.limits, self.now),
        )

    @rule(member=MEMBERS)
    def release(self, member):
        self.settle(lambda: self.partition.release(member, self.limits), lambda: self.slow.release(member, self.limits))

    def settle(self, ask, ask_slow):
        write = code = slow_code = None
        touched = []
        try:
            write = ask()
        except KafkaError as refused:
            code = refused.code
        try:
            touched = ask_slow()
        except KafkaError as refused:
            slow_code = refused.code
        assert code == slow_code
        records = [(o, self.slow.records[o]) for o in touched]
        assert offsets_of(write) == {o: (r.state, r.count) for o, r in records}
        if write is not None:
            assert write.start_offset == self.slow.start
            assert write.delivery_complete_count == self.slow.complete
            self.writes.append((write, records, self.limits.delivery_count))

    @precondition(lambda self: self.writes)
    @rule(data=st.data(), well=st.sampled_from([True, True, True, False]))
    def finish_write(self, data, well):
        write, records, limit = self.writes.pop(data.draw(st.integers(0, len(self.writes) - 1)))
        if well:
            self.persist(write)
            self.partition.written(write)
            self.slow.written([record for _, record in records])
        else:
            self.partition.unwritten(write, self.now)
            if write.delivery_count_limit is not None:
                self.slow.unwritten(records, limit, self.now)
            else:
                self.slow.move_start()

    def persist(self, write):
        start, states = self.persisted
        start = max(start, write.start_offset)
        states = {**states, **offsets_of(write)}
        self.persisted = (start, {o: each for o, each in states.items() if o >= start})

    # -- what always holds --

    @invariant()
    def they_agree(self):
        window = self.partition.window
        assert self.partition.next_fetch_offset() == self.slow.next()
        assert (window.start_offset, window.end_offset) == (self.slow.start, self.slow.end)
        assert window.complete_count == self.slow.complete
        found = {
            offset: (held.state, held.count, held.member, held.undo)
            for batch in window.batches
            for first, last, held in batch.parts()
            for offset in range(first, last + 1)
        }
        assert found == self.slow.states()

    @invariant()
    def no_lock_is_held_for_ever(self):
        locked = [r.deadline for r in self.slow.records.values() if r.state == ACQUIRED]
        if locked:
            assert 0 <= self.partition.deadline_ms <= min(locked)


def offsets_of(write):
    if write is None:
        return {}
    return {o: (b[2], b[3]) for b in write.batches for o in range(b.first_offset, b.last_offset + 1)}


# Shrinking such a run takes minutes and says little: the steps of the one that failed are printed.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
Either.TestCase.settings = settings(max_examples=100, stateful_step_count=50, phases=PHASES)
TestEither = Either.TestCase

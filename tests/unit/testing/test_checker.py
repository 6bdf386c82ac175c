"""The checker of histories: it finds what was planted, and nothing in what is right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.testing.checker import History, ViolationKind, check, load

P, Q = "p-0", "p-1"


def history():
    """A committed, an aborted and an undecided transaction, and a value without one; all read to the end."""
    h = History()
    for transaction, end in (("good", h.committed), ("bad", h.aborted), ("open", None)):
        for partition in (P, Q):
            h.send(transaction, partition, f"{transaction}-{partition}")
        if transaction != "bad":
            h.commit(transaction)
        if end is not None:
            end(transaction)
    h.sent(f"good-{P}", 0)
    h.send(None, P, "plain")
    h.sent("plain", 5)
    return h


def read_all(h, *values, reader="r"):
    for partition, offset, value in values:
        h.read(reader, partition, offset, value)
    h.reached(reader, P, 10)
    h.reached(reader, Q, 10)
    return h


RIGHT = ((P, 0, f"good-{P}"), (Q, 0, f"good-{Q}"), (P, 5, "plain"))
OPEN = ((P, 3, f"open-{P}"), (Q, 3, f"open-{Q}"))


def kinds(h):
    return {fault.kind for fault in check(h)}


def test_nothing_is_found_in_what_is_right():
    assert check(read_all(history(), *RIGHT)) == []
    assert check(read_all(history(), *RIGHT, *OPEN)) == [], "nobody knows how it ended: whole is right too"


@pytest.mark.parametrize(
    ("reads", "kind"),
    [
        (RIGHT[1:], ViolationKind.LOST),
        (RIGHT[:2], ViolationKind.LOST),
        ((*RIGHT, (P, 7, f"good-{P}")), ViolationKind.DUPLICATE),
        ((*RIGHT, (P, 7, f"bad-{P}")), ViolationKind.ABORTED),
        ((*RIGHT, OPEN[0]), ViolationKind.TORN),
        ((*RIGHT, (P, 7, "nobody's")), ViolationKind.PHANTOM),
        ((*RIGHT, (P, 0, f"open-{P}"), OPEN[1]), ViolationKind.CHANGED),
        (((P, 2, f"good-{P}"), *RIGHT[1:]), ViolationKind.CHANGED),
    ],
)
def test_what_was_planted_is_found(reads, kind):
    assert kind in kinds(read_all(history(), *reads))


def test_a_value_that_moved_to_another_partition_is_a_phantom():
    assert ViolationKind.PHANTOM in kinds(read_all(history(), (Q, 0, f"good-{P}"), *RIGHT[1:]))


def test_a_read_before_the_commit_was_asked_for_is_found():
    h = History()
    h.send("t", P, "a")
    h.read("r", P, 0, "a")
    h.commit("t")
    h.committed("t")
    assert kinds(h) == {ViolationKind.EARLY}


def test_a_reader_of_everything_may_see_what_is_not_committed():
    h = History()
    h.send("t", P, "a")
    h.read("r", P, 0, "a", committed=False)
    h.aborted("t")
    h.reached("r", P, 1)
    assert check(h) == []


def test_two_readers_must_agree():
    h = read_all(history(), *RIGHT)
    h.read("other", P, 0, f"open-{P}")
    assert ViolationKind.CHANGED in kinds(h)


def test_the_same_work_done_twice_is_found():
    h = History()
    for number in range(2):
        h.send(f"t{number}", P, f"out-{number}", source="in-0")
        h.commit(f"t{number}")
        h.committed(f"t{number}")
        h.read("r", P, number, f"out-{number}")
    assert kinds(h) == {ViolationKind.DUPLICATE}


def test_values_out_of_order_are_found():
    h = History()
    for value in "ab":
        h.send("t", P, value)
    h.commit("t")
    for offset, value in enumerate("ba"):
        h.read("r", P, offset, value)
    assert kinds(h) == {ViolationKind.REORDERED}


def test_what_nobody_has_read_to_the_end_is_not_missed():
    h = history()
    h.read("r", P, 0, f"good-{P}")
    h.reached("r", P, 1)
    assert {fault.kind for fault in check(h)} == {ViolationKind.LOST}, "only of the partition that was read"
    assert all("-1" not in fault.what.split("'")[1] for fault in check(h))


def test_histories_of_several_processes_are_one(tmp_path):
    paths = [str(tmp_path / name) for name in "ab"]
    first, second = History(paths[0]), History(paths[1])
    first.send("t", P, "a")
    second.read("r", P, 0, "a")
    first.commit("t")
    with open(paths[0], "a") as file:
        file.write('[1.0, "send", [')  # killed while it wrote
    found = load(paths)
    assert [event.name for event in found.events] == ["send", "read", "commit"]
    assert kinds(found) == {ViolationKind.EARLY}


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["committed", "aborted", "unknown"])), max_size=8),
       st.data())  # fmt: skip
def test_any_history_that_is_right_has_no_fault_and_any_broken_one_has(transactions, data):
    h, reads, offset = History(), [], 0
    for number, (size, end) in enumerate(transactions):
        id_ = f"t{number}"
        values = [f"{id_}-{index}" for index in range(size)]
        for value in values:
            h.send(id_, P, value)
        if end != "aborted":
            h.commit(id_)
        if end != "unknown":
            getattr(h, end)(id_)
        if end == "committed" or (end == "unknown" and data.draw(st.booleans())):
            for value in values:
                reads.append((P, offset, value))
                offset += 1
    broken = bool(reads) and data.draw(st.booleans())
    if broken:
        dropped = data.draw(st.sampled_from(reads))
        id_ = dropped[2].split("-")[0]
        siblings = [read for read in reads if read[2].startswith(f"{id_}-")]
        end = transactions[int(id_[1:])][1]
        broken = end == "committed" or len(siblings) > 1
        reads.remove(dropped)
    assert bool(check(read_all(h, *reads))) == broken

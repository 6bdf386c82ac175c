"""Any calls, in any order: only Kafka's errors come back, the log makes the same groups, no task has two owners."""

from __future__ import annotations

import pytest
from coordinator.streams.play import (
    COUNTING,
    StreamsShard,
    Thread,
    check_owners,
    settle,
    stay_alive,
    subtopology,
    tasks,
    topology,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scale import rounds

from kavka.coordinator.streams import assigning
from kavka.model.errors import KafkaError

GROUPS = st.sampled_from(["g", "h"])
IDS = st.sampled_from(["m", "n", "o"])
EPOCHS = st.sampled_from([-2, -1, 0, 0, 0, 1, 2, 3, 4, 5])
TOPOLOGIES = st.sampled_from([
    None, COUNTING, COUNTING, topology(), topology(epoch=3), topology(subtopology("0", ["x"])),
    topology(subtopology("0", ["a", "b"], together=[([0, 1], [])])), topology(subtopology("0", [])),
])  # fmt: skip
OWNED = st.sampled_from(
    [None, None, ([], []), (tasks(_0=[0]), []), (tasks(_0=[0, 1]), tasks(_1=[0])), (tasks(_7=[1]), [])]
)
NAMES = st.sampled_from(["a", "b", "x", "counts", "by-word"])

CALLS = st.one_of(
    st.tuples(st.just("streams"), st.fixed_dictionaries({
        "member": IDS, "epoch": EPOCHS, "group": GROUPS, "owned": OWNED, "process_id": st.sampled_from(["p", "q"]),
        "topology": TOPOLOGIES, "shutdown_application": st.booleans(), "host": st.sampled_from(["/h", "/i"]),
    })),
    st.tuples(st.just("steady"), st.tuples(IDS, GROUPS, OWNED)),
    st.tuples(st.just("make"), st.none()),
    st.tuples(st.just("advance"), st.sampled_from([0, 500, 3_000, 50_000, 70_000, 700_000_000])),
    st.tuples(st.just("create_topic"), st.tuples(NAMES, st.integers(1, 3))),
    st.tuples(st.just("delete_topic"), NAMES),
    st.tuples(st.just("configure"), st.integers(0, 3)),
    st.tuples(st.just("join"), GROUPS),
    st.tuples(st.just("commit"), st.tuples(IDS, EPOCHS, GROUPS)),
    st.tuples(st.just("delete"), GROUPS),
    st.tuples(st.just("start"), st.none()),
)  # fmt: skip


def play(shard, what, asked):
    there = shard.topics.image.topics.by_name
    match what:
        case "streams":
            shard.streams(**asked)
        case "steady":
            id_, group, owned = asked
            found = getattr(shard.state.groups.get(group), "members", {}).get(id_)
            if found is not None:
                shard.streams(id_, max(found.epoch, 1), group=group, owned=owned)
        case "make":
            shard.make_missing()
        case "advance":
            shard.advance(asked)
        case "create_topic" if asked[0] not in there:
            shard.create_topic(*asked)
        case "delete_topic" if asked in there:
            shard.delete_topic(asked)
        case "configure":
            shard.configure("g", streams_num_standby_replicas=asked)
        case "join":
            shard.join(group=asked)
        case "commit":
            id_, epoch, group = asked
            shard.commit(1, member=id_, epoch=epoch, group=group)
        case "delete":
            shard.delete_groups(asked)
        case "start":
            shard.start()


@settings(max_examples=250, deadline=None)
@given(st.booleans(), st.lists(st.one_of(CALLS, CALLS), max_size=40))
def test_the_log_alone_makes_the_same_groups(at_once, calls):
    shard = StreamsShard({"a": 2, "b": 1}, **({} if at_once else {"group_streams_initial_rebalance_delay_ms": 3_000}))
    shard.missing = []
    for what, asked in calls:
        before = shard.loaded().state
        try:
            play(shard, what, asked)
        except KafkaError:
            assert shard.state == before  # what is refused changes nothing
        assert shard.loaded().state == shard.state
        shard.missing = [] if what == "make" else [one for one in shard.missing if one.name not in there(shard)]
        shard.describe_streams("g", "h")
        shard.listed()
        for group in shard.state.groups.values():
            check(group)


def there(shard):
    return shard.topics.image.topics.by_name


def check(group):
    """Nobody is ahead of the group, and each active task has at most one owner."""
    if not hasattr(group, "topology"):
        return
    assert group.assignment_epoch <= group.epoch
    seen: dict = {}
    for id_, member in group.members.items():
        assert member.epoch <= group.assignment_epoch
        for held in (member.assigned, member.revoking):
            for task in ((sub, each) for sub, found in held.active.items() for each in found):
                assert seen.setdefault(task, id_) == id_
    assert seen == group.active


THREADS = 5
OFTEN = ["go_on"] * 4 + ["everybody"] * 3 + ["start"] * 4 + ["beat", "work", "lose", "leave", "crash", "wait", "wait"]
OFTEN += ["assign"] * 3
SELDOM = ["grow", "configure", "fail_over", "delete", "rejoin"]


@st.composite
def scripts(draw):
    """Who is there from the start, and what happens then."""
    steps = [("start", number) for number in draw(st.permutations(range(THREADS)))[: draw(st.integers(0, THREADS))]]
    for action in draw(st.lists(st.sampled_from(OFTEN * 3 + SELDOM), max_size=50)):
        match action:
            case "everybody":
                values = [draw(st.permutations(range(THREADS)))]
            case "wait":
                values = [draw(st.sampled_from([0, 500, 3_000, 20_000, 60_000, 70_000]))]
            case "configure":
                values = [draw(st.integers(0, 2))]
            case "grow" | "fail_over" | "delete" | "assign":
                values = []
            case _:
                values = [draw(st.integers(0, THREADS - 1))]
        steps.append((action, *values))
    return steps


def perform(shard, threads, action, values):
    match action, values:
        case "wait", [ms]:
            stay_alive(shard, threads, ms)
        case "configure", [replicas]:
            shard.configure(streams_num_standby_replicas=replicas)
        case "grow", []:
            if len(there(shard)["a"].partitions) < 4:
                shard.grow_topic("a", 4)  # its internal topics do not fit any more
        case "delete", []:
            if "counts" in there(shard):
                shard.delete_topic("counts")
        case "assign", []:
            shard.assign_a_bit()
        case "fail_over", []:
            shard.start()
        case "everybody", [order]:
            for number in order:
                threads[number].go_on()
                check_owners(threads)
        case "lose", [number]:
            threads[number].beat(lose=True)
        case "rejoin", [number]:
            threads[number].fall_back()
        case "start", [number]:
            if not threads[number].alive:
                threads[number].start()
        case _, [number]:
            getattr(threads[number], action)()


@settings(max_examples=rounds(full=2_000, ci=150), deadline=None)
@given(st.sampled_from([0, 3_000]), st.sampled_from([0, 1_000]), st.booleans(), scripts())
def test_no_task_has_two_owners_and_everybody_gets_to_the_end(delay_ms, interval_ms, bit_by_bit, steps):
    with pytest.MonkeyPatch.context() as patch:
        if bit_by_bit:
            patch.setattr(assigning, "AT_ONCE", 0)
            patch.setattr(assigning.Assigning.go_on, "__defaults__", (1,))
        owners_and_settling(delay_ms, interval_ms, steps)


def owners_and_settling(delay_ms, interval_ms, steps):
    shard = StreamsShard(
        {"a": 3},
        group_streams_initial_rebalance_delay_ms=delay_ms,
        group_streams_assignment_interval_ms=interval_ms,
        group_streams_num_standby_replicas=1,
    )
    threads = [Thread(shard, f"t{number}", f"p{number // 2}") for number in range(THREADS)]
    for action, *values in steps:
        perform(shard, threads, action, values)
        check_owners(threads)
        assert shard.loaded().state == shard.state
    settle(shard, threads)
    living = [thread for thread in threads if thread.alive]
    fits = len(there(shard)["a"].partitions) == 3 or "by-word" not in there(shard)
    fits = fits or len(there(shard)["by-word"].partitions) == 4
    if living and fits:
        count = len(there(shard)["a"].partitions)
        owned = set().union(*(thread.owns(thread.active) for thread in living))
        assert owned == {(id_, each) for id_ in "01" for each in range(count)}
        replicas = next((values[0] for action, *values in reversed(steps) if action == "configure"), 1)
        others = len({thread.process for thread in living}) - 1
        standing_by = sorted(task for thread in living for task in thread.owns(thread.standby))
        assert standing_by == sorted([("1", each) for each in range(count)] * min(replicas, others))

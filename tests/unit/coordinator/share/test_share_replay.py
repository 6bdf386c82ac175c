"""Any calls, in any order: only Kafka's errors come back, and the log alone makes the same share groups again."""

from __future__ import annotations

from coordinator.share.play import ShareShard
from hypothesis import given, settings
from hypothesis import strategies as st

GROUPS = st.sampled_from(["g", "h"])
IDS = st.sampled_from(["m", "n", "o"])
EPOCHS = st.sampled_from([-2, -1, 0, 0, 1, 2, 3, 4, 5])
TOPICS = st.sampled_from([None, None, ["a"], ["b"], ["a", "b", "x"]])
NAMES = st.sampled_from(["a", "b", "x"])

CALLS = st.one_of(
    st.tuples(st.just("share"), st.fixed_dictionaries({
        "member": IDS, "epoch": EPOCHS, "topics": TOPICS, "group": GROUPS, "host": st.sampled_from(["/h", "/i"]),
    })),
    st.tuples(st.just("initialize"), st.booleans()),
    st.tuples(st.just("lose"), st.none()),
    st.tuples(st.just("advance"), st.sampled_from([0, 1_000, 20_000, 50_000])),
    st.tuples(st.just("create_topic"), st.tuples(st.just("x"), st.integers(1, 3))),
    st.tuples(st.just("delete_topic"), NAMES),
    st.tuples(st.just("alter_offsets"), st.tuples(GROUPS, NAMES, st.integers(0, 3))),
    st.tuples(st.just("delete_offsets"), st.tuples(GROUPS, st.lists(NAMES, max_size=2))),
    st.tuples(st.just("offsets_deleted"), st.tuples(GROUPS, NAMES)),
    st.tuples(st.just("delete"), GROUPS),
    st.tuples(st.just("start"), st.none()),
)  # fmt: skip


def play(shard, what, asked):
    kind, topics = shard.kind, shard.topics
    match what:
        case "share":
            shard.share(**asked)
        case "initialize":
            shard.initialize(well=asked)
        case "lose":
            shard.published.clear()
        case "advance":
            shard.advance(asked)
        case "create_topic" if asked[0] not in topics.image.topics.by_name:
            shard.create_topic(*asked)
        case "delete_topic" if asked in topics.image.topics.by_name:
            shard.delete_topic(asked)
        case "alter_offsets":
            group, name, partition = asked
            wanted = shard.tried(lambda: kind.alter_offsets(group, {name: {partition: 7}}, shard.now_ms))
            if not isinstance(wanted, int):
                shard.published.append(wanted)
        case "delete_offsets":
            shard.tried(lambda: kind.delete_offsets(*asked, shard.now_ms))
        case "offsets_deleted":
            shard.take(kind.offsets_deleted(asked[0], [topics.id_of(asked[1])], shard.now_ms))
        case "delete":
            shard.take(kind.delete_states([asked], shard.now_ms))
            shard.take(shard.machine.delete_groups([asked]))
        case "start":
            shard.start()


@settings(max_examples=150)
@given(st.lists(st.one_of(CALLS, CALLS), max_size=40))
def test_the_log_alone_makes_the_same_groups(calls):
    shard = ShareShard({"a": 2, "b": 1})
    for what, asked in calls:
        play(shard, what, asked)
        for group in shard.state.groups.values():
            check(shard, group)
    assert shard.loaded().state == shard.state


def check(shard, group):
    """What is assigned is initialized, and nobody is ahead of the group."""
    assert group.assignment_epoch <= group.epoch
    for member in group.members.values():
        assert member.epoch <= group.assignment_epoch
    for id_ in group.targets:
        assert id_ in group.members


def test_members_end_up_with_all_partitions_that_they_want():
    shard = ShareShard({"a": 3, "b": 2})
    for member, topics in [("m", ["a", "b"]), ("n", ["a"]), ("o", ["b"])]:
        shard.joined(member, topics)
    for member in "mno":
        shard.joined(member, sorted(shard.group().members[member].topics))
    held = {(name, each) for member in "mno" for name, found in shard.assigned(member).items() for each in found}
    assert held == {("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)}

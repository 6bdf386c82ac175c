"""Any calls, in any order: only Kafka's errors come back, and the log alone makes the same durable state again."""

from __future__ import annotations

from contextlib import suppress

from coordinator.shards import Shard, subscription
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.coordinator.offsets.records import OffsetCommitKey, OffsetCommitValue
from kavka.coordinator.record import Record
from kavka.model.errors import KafkaError

GROUPS = st.sampled_from(["g", "h"])
IDS = st.sampled_from(["", "m1", "m2", "app-00000000-0000-0000-0000-000000000001"])
SEATS = st.sampled_from([None, None, "i1", "i2"])
EPOCHS = st.sampled_from([-2, -1, 0, 0, 0, 1, 2, 3, 4])
TOPICS = st.sampled_from([None, [], ["a"], ["b"], ["a", "b", "x"]])
OWNED = st.sampled_from([None, {}, {"a": [0]}, {"a": [0, 1], "b": [0]}])
REGEXES = st.sampled_from([None, "", "a", "[ab].*", "*"])
NAMES = st.sampled_from(["a", "b"])


def call(name, /, **values):
    return st.tuples(st.just(name), st.fixed_dictionaries(values))


CALLS = st.one_of(
    call(
        "beat", member=IDS, epoch=EPOCHS, group=GROUPS, instance_id=SEATS, topics=TOPICS, owned=OWNED, regex=REGEXES,
        assignor=st.sampled_from([None, "uniform", "range", "own"]), rebalance_timeout_ms=st.sampled_from([-1, 5_000]),
        version=st.sampled_from([0, 1]), host=st.sampled_from(["/h1", "/h2"]),
    ),
    call(
        "join", member=IDS, group=GROUPS, instance=SEATS, version=st.integers(0, 9),
        protocol_type=st.sampled_from(["consumer", "consumer", "connect", ""]),
        session_timeout_ms=st.sampled_from([1, 10_000]), rebalance_timeout_ms=st.sampled_from([5_000, 60_000]),
        protocols=st.sampled_from([
            {"range": subscription(["a"])}, {"range": subscription(["a"]), "sticky": subscription(["a", "b"])},
            {"sticky": subscription(["b"], {"b": [0]})}, {"range": b"?"}, {},
        ]),
    ),
    call("sync", member=IDS, generation=EPOCHS, group=GROUPS, instance=SEATS,
         assignments=st.sampled_from([{}, {"m1": b"x"}, {"app-00000000-0000-0000-0000-000000000001": b""}])),
    call("classic_beat", member=IDS, generation=EPOCHS, group=GROUPS, instance=SEATS),
    call("commit", offset=st.integers(0, 9), topic=NAMES, partition=st.integers(0, 1), group=GROUPS, member=IDS,
         epoch=EPOCHS, version=st.sampled_from([2, 8, 9]), retention_time_ms=st.sampled_from([-1, 0, 1_000])),
    call("delete_offset", topic=NAMES, partition=st.integers(0, 1), group=GROUPS),
    call("create_topic", name=st.sampled_from(["x", "y"]), partitions=st.integers(1, 3)),
    call("delete_topic", name=NAMES),
    call("advance", ms=st.sampled_from([0, 1_000, 3_000, 30_000, 700_000, 700_000_000])),
    call("configure", group=GROUPS, consumer_session_timeout_ms=st.sampled_from([45_000, 60_000])),
)  # fmt: skip
ODD_CALLS = st.one_of(
    st.tuples(st.just("leave"), st.tuples(GROUPS, st.lists(st.tuples(IDS, SEATS), min_size=1, max_size=3))),
    st.tuples(st.just("delete_groups"), st.lists(GROUPS, max_size=3)),
    st.tuples(st.just("transactional"), st.tuples(st.integers(1, 2), GROUPS, NAMES, st.integers(0, 9))),
    st.tuples(st.just("end_transaction"), st.tuples(st.integers(1, 2), st.booleans())),
    st.tuples(st.just("fail_over"), st.none()),
)


def run(shard, name, values):
    match name:
        case "leave":
            group, members = values
            shard.leave(*members, group=group)
        case "delete_groups":
            shard.delete_groups(*values)
        case "transactional":
            producer_id, group, topic, offset = values
            value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=shard.now_ms)
            shard.append(Record(OffsetCommitKey(group=group, topic=topic, partition=0), value, 4), producer_id)
        case "end_transaction":
            shard.end_transaction(values[0], committed=values[1])
        case "fail_over":
            shard.start()
        case "create_topic" | "delete_topic":
            there = values["name"] in shard.topics.image.topics.by_name
            if there == (name == "delete_topic"):
                getattr(shard, name)(**values)
        case _:
            getattr(shard, name)(**values)


def look_at_everything(shard):
    """What only reads must not fail, whatever the groups are like."""
    groups = list(shard.state.groups)
    assert set(shard.listed()) == set(groups)
    shard.describe_classic(groups, 6)
    shard.describe_consumer(groups)
    for group in groups:
        shard.fetch_all(group, stable=True)


@settings(max_examples=250, deadline=None)
@given(st.lists(st.one_of(CALLS, CALLS, CALLS, ODD_CALLS), max_size=40))
def test_a_new_leader_rebuilds_the_same_state_from_the_log(calls):
    shard = Shard({"a": 3, "b": 2})
    for name, values in calls:
        with suppress(KafkaError):
            run(shard, name, values)
        assert shard.loaded().state == shard.state
        look_at_everything(shard)
    assert {answer.key for answer in shard.machine.on_unloaded()} == shard.parked

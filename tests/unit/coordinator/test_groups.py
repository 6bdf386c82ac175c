"""Groups of either kind: listing, describing, deleting, loading, topics that go."""

from __future__ import annotations

import pytest
from coordinator.shards import GROUP, Shard, assignment, subscription, topic_id

from kavka.model.settings import broker_values
from kavka.model.transition import Divisible


@pytest.fixture
def shard():
    """A group of each kind and state that can be told apart."""
    shard = Shard({"a": 4}, group_consumer_assignment_interval_ms=0)
    shard.stable(1, group="classic")
    shard.commit(1, group="simple")
    shard.beat("m1", group="consumer")
    shard.beat("m1", group="left")
    shard.beat("m1", -1, group="left")
    return shard


# -- ListGroups ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ([], [], {"classic", "simple", "consumer", "left"}),
        (["Stable"], [], {"classic", "consumer"}),
        ([" sTABLE ", "empty"], [], {"classic", "simple", "consumer", "left"}),
        (["Assigning"], [], set()),
        ([], ["classic"], {"classic", "simple"}),
        ([], ["Consumer"], {"consumer", "left"}),
        ([], ["share", "streams"], set()),
        (["empty"], ["consumer"], {"left"}),
        (["nonsense"], [], set()),
        ([], ["nonsense"], set()),
    ],
)
def test_groups_are_listed_by_state_and_kind(shard, states, types, expected):
    assert set(shard.listed(states, types)) == expected


# -- DescribeGroups, ConsumerGroupDescribe ------------------------------------------------------------


def test_a_stable_classic_group_is_shown_with_what_its_members_said(shard):
    (group,) = shard.describe_classic(["classic"], 6)
    assert (group.error_code, group.group_state, group.protocol_type) == (0, "Stable", "consumer")
    assert group.protocol_data == "range"
    (member,) = group.members
    assert (member.client_id, member.client_host) == ("app", "/10.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (subscription(["a"]), assignment(a=[0]))


def test_a_classic_group_that_gathers_is_shown_without_a_protocol(shard):
    member = shard.describe_classic(["classic"], 6)[0].members[0].member_id
    shard.join(group="classic")  # somebody else will come
    shard.join(member, group="classic")
    (group,) = shard.describe_classic(["classic"], 6)
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert group.members[0].member_metadata == b""


def test_an_empty_group_is_shown_without_members(shard):
    (group,) = shard.describe_classic(["simple"], 6)
    assert (group.group_state, group.protocol_type, group.members) == ("Empty", "", [])


@pytest.mark.parametrize("name", ["nowhere", "consumer"])
@pytest.mark.parametrize(("version", "code"), [(5, 0), (6, 69)])
def test_what_is_no_classic_group_is_dead(shard, name, version, code):
    (group,) = shard.describe_classic([name], version)
    assert (group.error_code, group.group_state) == (code, "Dead")
    assert (group.error_message is None) == (code == 0)


def test_a_consumer_group_is_shown_with_what_members_have_and_shall_have(shard):
    shard.beat("m2", group="consumer", rack_id="r", instance_id="i")
    shard.beat("m1", 2, group="consumer")
    (group,) = shard.describe_consumer(["consumer"])
    assert (group.error_code, group.group_state, group.assignor_name) == (0, "Reconciling", "uniform")
    assert (group.group_epoch, group.assignment_epoch) == (3, 3)
    first, second = group.members
    assert (first.member_id, first.member_epoch, first.subscribed_topic_names) == ("m1", 2, ["a"])
    (has,) = first.assignment.topic_partitions
    assert (has.topic_name, has.topic_id, has.partitions) == ("a", topic_id("a"), [0, 1, 2, 3])  # till it gave back
    assert first.target_assignment.topic_partitions[0].partitions == [0, 1]
    assert (second.rack_id, second.instance_id, second.assignment.topic_partitions) == ("r", "i", [])


@pytest.mark.parametrize("name", ["nowhere", "classic"])
def test_what_is_no_consumer_group_is_not_found(shard, name):
    (group,) = shard.describe_consumer([name])
    assert (group.error_code, group.group_id) == (69, name)
    assert group.error_message


# -- DeleteGroups -------------------------------------------------------------------------------------


def test_only_empty_groups_are_deleted(shard):
    shard.commit(1, group="left")
    assert shard.delete_groups("classic", "simple", "consumer", "left", "nowhere", "simple") == [68, 0, 68, 0, 69]
    assert set(shard.state.groups) == {"classic", "consumer"}
    assert shard.fetch_all("left") == shard.fetch_all("simple") == {}
    assert shard.loaded().state == shard.state


def test_a_deleted_group_leaves_no_timers(shard):
    shard.join(group="new")
    shard.delete_groups("new")
    assert not [key for key in shard.timers if key.group == "new"]


# -- metadata -----------------------------------------------------------------------------------------


def test_the_offsets_of_a_deleted_topic_are_forgotten(shard):
    shard.create_topic("b", 2)
    for group in ("simple", "other"):
        shard.commit(1, topic="b", partition=1, group=group)
    shard.commit(2, topic="b", group="other", topic_id=topic_id("x"))  # of another topic, if there was one
    shard.delete_topic("b")
    assert shard.fetch_all("simple") == {("a", 0): (1, 0)}
    assert shard.fetch_all("other") == {("b", 0): (2, 0)}
    assert shard.loaded().state == shard.state


def test_forgetting_a_topic_may_be_written_in_parts(shard):
    delta = shard.topics.delete("a")
    transition = shard.machine.on_metadata(shard.topics.image, delta)
    assert isinstance(transition.records, Divisible)
    assert len(transition.records) == 1


def test_other_settings_of_the_node_count_from_now_on(shard):
    shard.machine.on_settings(broker_values({**shard.settings, "group.consumer.heartbeat.interval.ms": "9000"}))
    assert shard.beat("m1", 2, group="consumer").heartbeat_interval_ms == 9_000


# -- loading ------------------------------------------------------------------------------------------


def test_whoever_is_in_a_group_that_is_loaded_has_a_session_to_be_heard_of(shard):
    shard.start()
    kinds = {(key.kind, key.group) for key in shard.timers}
    assert kinds == {("heartbeat", "classic"), ("session", "consumer"), ("expire", "")}
    shard.advance(45_000)
    assert shard.group("consumer").state == "Empty"


def test_every_prefix_of_a_log_can_be_loaded(shard):
    log = list(shard.log)
    for length in range(len(log)):
        shard.log = log[:length]
        shard.loaded().on_loaded(shard.now_ms)


def test_a_log_from_which_compaction_took_what_is_out_of_date_loads_the_same(shard):
    ids, _ = shard.stable(1, group=GROUP)
    shard.beat("m2", group=GROUP)
    shard.beat("m1", -1, group="consumer")
    shard.join(group="left")
    latest = {key: offset for offset, (key, _, _) in enumerate(shard.log)}
    log, kept = shard.log, set(latest.values())
    shard.log = [entry for offset, entry in enumerate(log) if offset in kept and entry[1] is not None]
    state = shard.loaded().state
    assert state.groups == shard.state.groups
    assert ids[0] in state.groups[GROUP].members

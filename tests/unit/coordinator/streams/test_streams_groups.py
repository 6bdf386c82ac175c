"""StreamsGroupHeartbeat and StreamsGroupDescribe: joining, statuses, epochs, tasks, endpoints, offsets, other kinds."""

from __future__ import annotations

import pytest
from coordinator.shards import GROUP
from coordinator.streams.play import COUNTING, SESSION_MS, StreamsShard, subtopology, tasks, told, topic, topology

from kavka.coordinator.classic.state import ClassicGroup
from kavka.coordinator.streams.state import MemberState, StreamsGroup
from kavka.model.errors import KafkaError
from kavka.protocol.schemas import streams_group_heartbeat as schema

STALE, NO_SOURCE, MISPARTITIONED, NO_INTERNAL, SHUTDOWN, DELAYED = range(6)


@pytest.fixture
def shard():
    return StreamsShard({"a": 4})


def code_of(call):
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


# -- joining and statuses -------------------------------------------------------------------------------


def test_the_first_member_gets_all_tasks(shard):
    reply = shard.streams()
    assert (reply.error_code, reply.member_epoch, reply.heartbeat_interval_ms) == (0, 2, 5_000)
    assert (reply.acceptable_recovery_lag, reply.task_offset_interval_ms) == (0, 0)
    assert (told(reply.active_tasks), told(reply.standby_tasks), told(reply.warmup_tasks)) == (
        {"0": [0, 1, 2, 3]},
        {},
        {},
    )
    assert reply.status == []
    assert shard.listed() == {GROUP: ("Stable", "streams", "streams")}


def test_a_group_is_written_as_kafka_writes_it(shard):
    shard.streams()
    assert shard.records_since(0) == [
        "StreamsGroupMemberMetadata",
        "StreamsGroupTopology",
        "StreamsGroupMetadata",
        "StreamsGroupTargetAssignmentMember",
        "StreamsGroupTargetAssignmentMetadata",
        "StreamsGroupCurrentMemberAssignment",
    ]


def test_a_steady_member_writes_nothing_and_hears_no_tasks(shard):
    shard.streams()
    shard.streams(epoch=2, owned=(tasks(_0=[0, 1, 2, 3]), []))
    written = len(shard.log)
    reply = shard.streams(epoch=2)
    assert (reply.member_epoch, reply.active_tasks, reply.standby_tasks, reply.status) == (2, None, None, [])
    assert len(shard.log) == written


def test_a_member_that_did_not_hear_its_tasks_is_told_again(shard):
    shard.streams()
    assert told(shard.streams(epoch=0).active_tasks) == {"0": [0, 1, 2, 3]}
    again = shard.streams(epoch=0)
    assert told(again.active_tasks) == {"0": [0, 1, 2, 3]}
    assert shard.streams(epoch=2, owned=(tasks(_0=[0, 1, 2, 3]), [])).active_tasks is None


def test_internal_topics_are_missing_until_somebody_creates_them(shard):
    reply = shard.streams(topology=COUNTING)
    assert shard.status(reply) == [NO_INTERNAL]
    assert reply.status[0].status_detail == "Internal topics are missing: by-word, counts"
    assert [(one.name, one.partitions, one.replication) for one in shard.missing] == [
        ("by-word", 4, -1),
        ("counts", 4, -1),
    ]
    assert (told(reply.active_tasks), shard.listed()[GROUP][0]) == ({}, "NotReady")
    shard.make_missing()
    reply = shard.streams(epoch=2, owned=([], []))
    assert (shard.status(reply), shard.missing, reply.member_epoch) == ([], [], 3)
    assert told(reply.active_tasks) == {"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]}
    assert shard.listed()[GROUP][0] == "Stable"


@pytest.mark.parametrize("state", ["NotReady", "not_ready", " NOTREADY "])
def test_groups_that_are_not_ready_are_found(shard, state):
    shard.streams(topology=COUNTING)
    assert list(shard.listed(states=[state])) == [GROUP]
    assert shard.listed(states=["Stable"]) == {}


def test_source_topics_are_missing(shard):
    reply = shard.streams(topology=topology(subtopology("0", ["x", "a", "y", "w", "z"])))
    assert (shard.status(reply), reply.status[0].status_detail) == (
        [NO_SOURCE],
        "Source topics w, x, y and 1 additional topics are missing.",
    )
    assert told(reply.active_tasks) == {}
    for name in "wxyz":
        shard.create_topic(name, 2)
    assert told(shard.streams(epoch=2).active_tasks) == {"0": [0, 1, 2, 3]}


def test_topics_that_are_partitioned_wrongly(shard):
    shard.create_topic("b", 3)
    reply = shard.streams(topology=topology(subtopology("0", ["a", "b"], together=[([0, 1], [])])))
    assert (shard.status(reply), reply.status[0].status_detail) == (
        [MISPARTITIONED],
        "Following topics do not have the same number of partitions: [{a=4, b=3}]",
    )


def test_an_internal_topic_that_was_made_by_hand_is_not_touched(shard):
    shard.create_topic("log", 3)
    reply = shard.streams(topology=topology(subtopology("0", ["a"], changelogs=["log"])))
    assert (shard.status(reply), reply.status[0].status_detail) == (
        [MISPARTITIONED],
        "Existing topic log has different number of partitions: expected 4, found 3",
    )
    assert shard.missing == []


def test_a_topic_that_is_deleted_takes_the_tasks_away(shard):
    shard.streams()
    shard.delete_topic("a")
    reply = shard.streams(epoch=2)
    assert (shard.status(reply), told(reply.active_tasks)) == ([NO_SOURCE], {})
    assert shard.member().state is MemberState.UNREVOKED_TASKS
    reply = shard.streams(epoch=2, owned=([], []))
    assert (reply.member_epoch, shard.listed()[GROUP][0]) == (3, "NotReady")


def test_a_topic_that_grows_brings_more_tasks(shard):
    shard.streams()
    shard.grow_topic("a", 6)
    assert told(shard.streams(epoch=2).active_tasks) == {"0": [0, 1, 2, 3, 4, 5]}


def test_those_who_join_an_empty_group_are_waited_for():
    shard = StreamsShard({"a": 2}, group_streams_initial_rebalance_delay_ms=3_000)
    first = shard.streams("m1")
    assert (shard.status(first), first.member_epoch, told(first.active_tasks)) == ([DELAYED], 1, {})
    assert first.status[0].status_detail == "Assignment delayed due to the configured initial rebalance delay."
    shard.advance(1_000)
    assert shard.status(shard.streams("m2")) == [DELAYED]
    assert shard.listed()[GROUP][0] == "Assigning"
    shard.advance(2_000)
    assert told(shard.streams("m1", 1).active_tasks) == {"0": [0]}
    assert told(shard.streams("m2", 1).active_tasks) == {"0": [1]}
    assert shard.status(shard.streams("m3")) == []  # nobody waits for those who come later


def test_nobody_is_assigned_to_when_all_who_gathered_are_gone():
    shard = StreamsShard({"a": 2}, group_streams_initial_rebalance_delay_ms=3_000)
    shard.streams("m1")
    shard.streams("m1", -1)
    written = len(shard.log)
    shard.advance(3_000)
    assert len(shard.log) == written


def test_assignments_keep_an_interval():
    shard = StreamsShard({"a": 2}, group_streams_assignment_interval_ms=1_000)
    shard.streams("m1")
    reply = shard.streams("m2")
    assert (shard.status(reply), told(reply.active_tasks)) == ([DELAYED], {})
    assert reply.status[0].status_detail == "Assignment delayed due to the configured assignment interval."
    shard.advance(1_000)
    assert shard.status(shard.streams("m2", reply.member_epoch)) == []
    assert told(shard.streams("m1", 2).active_tasks) == {"0": [0]}


def test_one_member_stops_the_application(shard):
    shard.streams("m1")
    shard.streams("m2")
    reply = shard.streams("m2", 3, shutdown_application=True)
    assert shard.status(reply) == [SHUTDOWN]
    assert reply.status[0].status_detail == (
        "Streams group member m2 encountered a fatal error and requested a shutdown for the entire application."
    )
    shard.streams("m2", -1)
    assert shard.status(shard.streams("m1", 2)) == [SHUTDOWN]
    shard.streams("m1", -1)
    assert shard.status(shard.streams("m3")) == []  # the group was empty meanwhile


def test_a_member_that_leaves_can_stop_the_others(shard):
    shard.streams("m1")
    shard.streams("m2")
    reply = shard.streams("m2", -1, shutdown_application=True)
    assert (reply.member_epoch, reply.status, reply.heartbeat_interval_ms) == (-1, [], 0)
    assert shard.status(shard.streams("m1", 2)) == [SHUTDOWN]


def test_a_topology_that_is_behind_is_stale(shard):
    shard.streams("m1", topology=topology(epoch=5))
    reply = shard.streams("m2", topology=topology(subtopology("9", ["q"]), epoch=4))
    assert (shard.status(reply), reply.status[0].status_detail) == (
        [STALE],
        "The member's topology epoch 4 is behind the group's topology epoch 5.",
    )
    assert shard.status(shard.streams("m2", reply.member_epoch)) == [STALE]


# -- errors ----------------------------------------------------------------------------------------------

WRONG = {
    "no member id": (42, {"member": ""}),
    "no group id": (42, {"group": " "}),
    "an empty rack": (42, {"rack_id": ""}),
    "a static member": (42, {"instance_id": "i"}),
    "task offsets": (42, {"task_offsets": []}),
    "task end offsets": (42, {"task_end_offsets": []}),
    "a pattern": (42, {"topology": topology(subtopology(regex=["a.*"]))}),
    "no rebalance timeout": (42, {"rebalance_timeout_ms": -1}),
    "no topology": (42, {"topology": None}),
    "joins with active tasks": (42, {"owned": (tasks(_0=[0]), [])}),
    "joins with standby tasks": (42, {"owned": ([], tasks(_0=[0]))}),
    "an epoch below -2": (42, {"epoch": -3}),
    "a static member leaves": (42, {"epoch": -2}),
    "a topology later": (42, {"epoch": 1, "topology": topology()}),
    "only active tasks": (42, {"epoch": 1, "active_tasks": []}),
    "a changelog with partitions": (130, {"topology": topology(subtopology(changelogs=[topic("c", 2)]))}),
    "a subtopology without sources": (130, {"topology": topology(subtopology("0", []))}),
    "a loop": (130, {"topology": topology(subtopology("0", [], sinks=["r"], repartitions=["r"]))}),
    "a repartition topic that nobody writes": (130, {"topology": topology(subtopology(repartitions=["r"]))}),
    "a negative topology epoch": (-1, {"topology": topology(epoch=-1)}),
    "the same subtopology twice": (-1, {"topology": topology(subtopology("0"), subtopology("0"))}),
    "a copartition group of nothing": (-1, {"topology": topology(subtopology(together=[([7], [])]))}),
    "not the first request": (69, {"epoch": 1}),
    "leaves a group that is not there": (69, {"epoch": -1}),
}


@pytest.mark.parametrize(("code", "values"), WRONG.values(), ids=WRONG)
def test_what_is_refused_changes_nothing(shard, code, values):
    assert shard.code(**values) == code
    assert (shard.log, shard.state.groups, shard.timers.keys() & {"streams session"}) == ([], {}, set())


def test_warm_up_tasks_are_not_there_yet(shard):
    shard.streams()
    assert shard.code(epoch=2, active_tasks=[], standby_tasks=[], warmup_tasks=tasks(_0=[0])) == 42


@pytest.mark.parametrize("named", [tasks(_0=[4]), tasks(_0=[-1]), tasks(_9=[0])])
def test_a_task_that_there_is_not(shard, named):
    shard.streams()
    assert shard.code(epoch=2, owned=(named, [])) == 42


def test_another_topology_is_refused(shard):
    shard.streams("m1")
    assert shard.code("m2", topology=topology(subtopology("0", ["a"], sinks=["r"]))) == 42
    assert shard.code("m2", topology=topology(epoch=1)) == 42


def test_members_are_fenced_by_their_epochs(shard):
    shard.streams("m1")
    assert shard.code("m2", 1) == 25
    assert shard.code("m2", -1) == 25
    assert shard.code("m1", 3) == 110
    assert shard.code("m1", 1) == 110
    shard.streams("m2")
    shard.streams("m1", 2, owned=(tasks(_0=[0, 1]), []))
    assert shard.member("m1").epoch == 3
    # It has not heard of epoch 3, and has nothing that it may not have.
    assert shard.streams("m1", 2, owned=(tasks(_0=[0]), [])).member_epoch == 3
    assert shard.code("m1", 2, owned=(tasks(_0=[3]), [])) == 110
    assert shard.code("m1", 2) == 110


def test_a_group_can_be_full():
    shard = StreamsShard({"a": 2}, group_streams_max_size=1)
    shard.streams("m1")
    assert shard.code("m2") == 81
    assert shard.code("m1", 2) == 0
    assert shard.code("m1", 0) == 81  # as in Kafka, also for one that is in it


# -- reconciliation ---------------------------------------------------------------------------------------


def test_a_task_moves_when_it_was_given_back(shard):
    shard.streams("m1")
    reply = shard.streams("m2")
    assert (reply.member_epoch, told(reply.active_tasks)) == (3, {})
    assert shard.member("m2").state is MemberState.UNRELEASED_TASKS
    reply = shard.streams("m1", 2, owned=(tasks(_0=[0, 1, 2, 3]), []))
    assert (reply.member_epoch, told(reply.active_tasks)) == (2, {"0": [0, 1]})
    assert shard.member("m1").state is MemberState.UNREVOKED_TASKS
    assert shard.listed()[GROUP][0] == "Reconciling"
    shard.streams("m2", 3)
    assert shard.member("m2").assigned.active == {}
    assert shard.streams("m1", 2, owned=(tasks(_0=[0, 1]), [])).member_epoch == 3
    assert told(shard.streams("m2", 3).active_tasks) == {"0": [2, 3]}
    assert shard.listed()[GROUP][0] == "Stable"
    assert shard.member("m2").assigned.active == {"0": {2: 3, 3: 3}}


def test_a_member_that_gives_nothing_back_is_taken_out(shard):
    shard.streams("m1")
    shard.streams("m2")
    shard.streams("m1", 2, owned=(tasks(_0=[0, 1, 2, 3]), []))
    for _ in range(6):
        shard.advance(10_000)
        shard.code("m1", 2, owned=(tasks(_0=[0, 1, 2, 3]), []))
        shard.streams("m2", shard.member("m2").epoch)
    assert list(shard.group().members) == ["m2"]
    assert shard.member("m2").assigned.sets.active == {"0": {0, 1, 2, 3}}


def test_a_silent_member_is_taken_out(shard):
    shard.streams("m1")
    shard.advance(SESSION_MS)
    assert (shard.group().members, shard.listed()[GROUP][0], shard.group().epoch) == ({}, "Empty", 3)


def test_a_new_leader_goes_on_with_sessions_and_revocations(shard):
    shard.streams("m1")
    shard.streams("m2")
    shard.streams("m1", 2, owned=(tasks(_0=[0, 1, 2, 3]), []))
    shard.start()
    shard.advance(SESSION_MS - 1)
    assert len(shard.group().members) == 2
    for _ in range(3):
        shard.streams("m2", 3)
        shard.code("m1", 2, owned=(tasks(_0=[0, 1, 2, 3]), []))
        shard.advance(7_000)
    assert list(shard.group().members) == ["m2"]


def test_standby_tasks_stay_out_of_the_process_that_has_the_task():
    shard = StreamsShard({"a": 2, "log": 2}, group_streams_num_standby_replicas=1)
    stateful = topology(subtopology("0", ["a"], changelogs=["log"]))
    shard.streams("m1", topology=stateful, process_id="p1")
    assert told(shard.streams("m1", 2).standby_tasks) in (None, {})
    shard.streams("m2", topology=stateful, process_id="p2")
    shard.streams("m1", 2, owned=(tasks(_0=[0, 1]), []))
    first = shard.streams("m1", 2, owned=(tasks(_0=[0]), []))
    second = shard.streams("m2", 3)
    assert (told(second.active_tasks), told(second.standby_tasks)) == ({"0": [1]}, {"0": [0]})
    assert told(first.standby_tasks) == {"0": [1]} or told(shard.streams("m1", 3).standby_tasks) == {"0": [1]}


def test_standby_replicas_are_a_setting_of_the_group():
    shard = StreamsShard({"a": 2, "log": 2})
    stateful = topology(subtopology("0", ["a"], changelogs=["log"]))
    for member in ("m1", "m2"):
        shard.streams(member, topology=stateful)
    shard.streams("m1", 2, owned=(tasks(_0=[0]), []))
    shard.streams("m2", 3, owned=([], []))
    epoch = shard.group().epoch
    shard.configure(streams_num_standby_replicas=5)  # the node allows two
    shard.streams("m2", 3)
    assert (shard.group().epoch, shard.group().assignment_configs) == (epoch + 1, {"num.standby.replicas": "2"})
    assert {id_: one.standby for id_, one in shard.group().targets.items()} == {"m1": {"0": {1}}, "m2": {"0": {0}}}


def test_a_state_that_a_later_version_wrote_starts_over(shard):
    shard.streams("m1")
    key, value, _ = shard.log[-1]
    record = shard.codec.decode(key, value)
    record.value.state = 99
    shard.append(record)
    assert shard.code("m1", 2, owned=(tasks(_0=[0]), [])) == 110
    assert shard.code("m1", 2, owned=([], [])) == 0


# -- endpoints --------------------------------------------------------------------------------------------


def endpoints(reply):
    found = reply.partitions_by_user_endpoint
    return None if found is None else {
        (one.user_endpoint.host, one.user_endpoint.port): (
            {each.topic: each.partitions for each in one.active_partitions},
            {each.topic: each.partitions for each in one.standby_partitions},
        )
        for one in found
    }  # fmt: skip


def test_members_hear_where_state_can_be_asked_for(shard):
    first = shard.streams("m1", user_endpoint=schema.Endpoint(host="one", port=1), endpoint_epoch=-1)
    assert (endpoints(first), first.endpoint_information_epoch) == ({("one", 1): ({"a": [0, 1, 2, 3]}, {})}, 0)
    assert endpoints(shard.streams("m1", 2, owned=(tasks(_0=[0, 1, 2, 3]), []), endpoint_epoch=0)) is None
    second = shard.streams("m2", user_endpoint=schema.Endpoint(host="two", port=2), endpoint_epoch=-1)
    assert endpoints(second) == {("one", 1): ({"a": [0, 1, 2, 3]}, {}), ("two", 2): ({}, {})}
    assert second.endpoint_information_epoch == 1
    moved = shard.streams("m1", 2, owned=(tasks(_0=[0, 1, 2, 3]), []), endpoint_epoch=1)
    assert (endpoints(moved)[("one", 1)], moved.endpoint_information_epoch) == (({"a": [0, 1]}, {}), 2)
    assert endpoints(shard.streams("m2", 3, endpoint_epoch=2)) is None


def test_the_threads_of_a_process_have_one_endpoint(shard):
    shared = schema.Endpoint(host="one", port=1)
    shard.streams("m1", user_endpoint=shared)
    shard.streams("m2", user_endpoint=shared)
    shard.streams("m1", 2, owned=(tasks(_0=[0, 1, 2, 3]), []))
    shard.streams("m1", 2, owned=(tasks(_0=[0, 1]), []))
    reply = shard.streams("m2", 3)
    assert len(reply.partitions_by_user_endpoint) == 1
    assert endpoints(reply) == {("one", 1): ({"a": [0, 1, 2, 3]}, {})}


def test_a_group_without_endpoints_has_an_empty_list(shard):
    assert endpoints(shard.streams("m1", endpoint_epoch=-1)) == {}


def test_endpoints_without_topics_have_no_partitions(shard):
    reply = shard.streams(topology=topology(subtopology("0", ["x"])), user_endpoint=schema.Endpoint(host="one", port=1))
    assert endpoints(reply) == {("one", 1): ({}, {})}


# -- offsets ----------------------------------------------------------------------------------------------


def test_members_commit_for_the_tasks_they_have(shard):
    assert shard.commit(1) == 0  # a group that nobody is in
    shard.streams("m1")
    assert code_of(lambda: shard.commit(2)) == 25
    assert shard.commit(3, member="m1", epoch=2) == 0
    assert shard.fetch()[0] == 3
    shard.streams("m2")
    shard.streams("m1", 2, owned=(tasks(_0=[0, 1, 2, 3]), []))
    shard.streams("m1", 2, owned=(tasks(_0=[0, 1]), []))
    shard.streams("m2", 3)
    assert shard.member("m1").epoch == 3
    assert shard.commit(4, member="m1", epoch=2, partition=0) == 0  # its own since epoch 2
    assert code_of(lambda: shard.commit(4, member="m1", epoch=2, partition=3)) == 113
    assert code_of(lambda: shard.commit(4, member="m2", epoch=2, partition=3)) == 113
    assert code_of(lambda: shard.commit(4, member="m1", epoch=2, topic="b")) == 113
    assert code_of(lambda: shard.commit(4, member="m1", epoch=4)) == 113
    assert code_of(lambda: shard.commit(4, member="m1", epoch=3, version=8)) == 35


def test_offsets_of_topics_that_are_read_stay(shard):
    shard.streams("m1")
    shard.commit(3, member="m1", epoch=2)
    shard.create_topic("b", 1)
    shard.commit(3, member="m1", epoch=2, topic="b")
    assert (shard.delete_offset("a"), shard.delete_offset("b")) == (86, 0)
    shard.streams("m1", -1)
    assert shard.delete_offset("a") == 0


def test_who_fetches_offsets_is_looked_at(shard):
    shard.streams("m1")
    shard.commit(3, member="m1", epoch=2)
    assert shard.fetch(member_id="m1", member_epoch=2)[0] == 3
    assert code_of(lambda: shard.fetch(member_id="m1", member_epoch=1)) == 113
    assert code_of(lambda: shard.fetch(member_id="m9", member_epoch=2)) == 25


# -- other kinds, and the end -------------------------------------------------------------------------------


def test_an_empty_classic_group_becomes_a_streams_group_with_its_offsets(shard):
    ids, _ = shard.stable(1)
    assert shard.code() == 69
    shard.leave(*ids)
    shard.commit(7)
    start = len(shard.log)
    assert shard.streams().error_code == 0
    assert shard.records_since(start)[0] == "-GroupMetadata"
    assert isinstance(shard.group(), StreamsGroup)
    assert shard.fetch()[0] == 7


def test_an_empty_streams_group_becomes_a_classic_group(shard):
    shard.streams("m1")
    assert shard.join().error_code == 23
    shard.streams("m1", -1)
    start = len(shard.log)
    assert shard.join().error_code == 79
    assert shard.records_since(start)[:-1] == [
        "-StreamsGroupTargetAssignmentMetadata",
        "-StreamsGroupMetadata",
        "-StreamsGroupTopology",
    ]
    assert isinstance(shard.group(), ClassicGroup)


def test_groups_of_other_kinds_are_none(shard):
    shard.beat("c", group="consumers")
    assert (shard.code(group="consumers"), shard.code(group="consumers", epoch=1)) == (69, 69)
    shard.streams()
    assert code_of(lambda: shard.beat("c")) == 69
    [known, other, gone] = shard.describe_streams(GROUP, "consumers", "x")
    assert (known.error_code, other.error_code, gone.error_code) == (0, 69, 69)
    assert other.error_message == "Group consumers is not a streams group."
    assert shard.describe_classic([GROUP])[0].error_code == 69


def test_an_empty_group_is_deleted_with_its_topology(shard):
    shard.streams()
    assert shard.delete_groups(GROUP) == [68]
    shard.streams("m1", -1)
    assert shard.delete_groups(GROUP) == [0]
    assert shard.streams(topology=topology(subtopology("1", ["a"]), epoch=0)).member_epoch == 2
    assert shard.loaded().state == shard.state


def test_an_empty_group_without_offsets_is_forgotten(shard):
    shard.streams()
    shard.streams("m1", -1)
    shard.advance(8 * 24 * 3_600_000)
    assert shard.state.groups == {}


def test_a_group_is_described_with_its_topology(shard):
    shard.streams(
        topology=topology(
            subtopology("0", ["a"], sinks=["r"]),
            subtopology("1", [], repartitions=["r"], changelogs=[topic("c", replication=2, cleanup_policy="compact")]),
        ),
        process_id="p",
        client_tags=[schema.KeyValue(key="zone", value="z")],
        user_endpoint=schema.Endpoint(host="h", port=1),
    )
    [raw] = shard.describe_streams()
    assert [topic.partitions for topic in raw.topology.subtopologies[1].state_changelog_topics] == [0]
    shard.make_missing()
    shard.streams("m1", 2, owned=([], []))
    [found] = shard.describe_streams()
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Stable", 3, 3)
    first, second = found.topology.subtopologies
    assert (first.source_topics, first.repartition_sink_topics) == (["a"], ["r"])
    [changelog], [repartition] = second.state_changelog_topics, second.repartition_source_topics
    assert (changelog.name, changelog.partitions, changelog.replication_factor) == ("c", 4, 2)
    assert [(one.key, one.value) for one in changelog.topic_configs] == [("cleanup.policy", "compact")]
    assert (repartition.name, repartition.partitions) == ("r", 4)
    [member] = found.members
    assert (member.process_id, member.topology_epoch, member.user_endpoint.host) == ("p", 0, "h")
    assert told(member.assignment.active_tasks) == told(member.target_assignment.active_tasks) != {}
    assert [(one.key, one.value) for one in member.client_tags] == [("zone", "z")]

"""Elect leaders: every outcome is one error code."""

from __future__ import annotations

from functools import partial

import pytest

from kavka.broker.handlers.elect_leaders import AT_A_TIME, elect_leaders
from kavka.broker.handlers.marks import parts_of
from kavka.broker.parts import served_in_parts
from kavka.controller.brokers import Heartbeat
from kavka.controller.isr import InSync, IsrRequest
from kavka.model.errors import NotController
from kavka.protocol.schemas.elect_leaders import ElectLeadersRequest, TopicPartitions
from kavka.protocol.schemas.get_replica_log_info import (
    GetReplicaLogInfoResponse,
    PartitionLogInfo,
    TopicPartitionLogInfo,
)
from kavka.quorum.recovery import UncleanRecovery


@pytest.fixture
def tell(ask, loop):
    loop.broker(2)
    loop.broker(3, unfence=False)
    loop.topic("a", assignments=[(0, (1, 2)), (1, (3, 1))])

    def call(*partitions, version=2, told=replicas, **more):
        rows = [TopicPartitions(topic=name, partitions=list(indexes)) for name, indexes in partitions]
        request = ElectLeadersRequest(**{"topic_partitions": rows, **more})
        parts = parts_of(elect_leaders)
        serve = served_in_parts(partial(whole, told=told), parts) if parts else partial(whole, told=told)
        return ask(serve, request, version)

    def whole(request, context, *, told):
        return elect_leaders(request, context, loop, UncleanRecovery(loop, told))

    return call


LOGS = {1: (3, 99), 2: (4, 10), 4: (4, 12)}
"""The last epoch and the end of the log, by broker."""


async def replicas(broker, request):
    """What a broker says of its replicas."""
    epoch, end = LOGS[broker]
    return GetReplicaLogInfoResponse(
        error_code=0,
        topic_partition_log_info_list=[
            TopicPartitionLogInfo(
                topic_id=topic.topic_id,
                partition_log_info=[
                    PartitionLogInfo(
                        partition=index,
                        last_written_leader_epoch=epoch,
                        current_leader_epoch=0,
                        log_end_offset=end,
                        error_code=0,
                        error_message=None,
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions
        ],
    )


def codes(answer):
    rows = {
        (topic.topic, row.partition_id): row.error_code
        for topic in answer.replica_election_results
        for row in topic.partition_result
    }
    return answer.error_code, rows


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_partition_has_its_own_outcome(tell, version):
    answer = tell(("a", [0, 1, 9]), ("b", [0]), version=version)
    assert codes(answer) == (0, {("a", 0): 84, ("a", 1): 80, ("a", 9): 3, ("b", 0): 3})


def test_without_a_list_only_what_needs_an_election_is_answered(tell):
    assert codes(tell(topic_partitions=None)) == (0, {("a", 1): 80})


def test_an_unclean_election_is_not_needed_while_somebody_leads(tell):
    assert codes(tell(("a", [0]), election_type=1)) == (0, {("a", 0): 84})


@pytest.mark.parametrize(("version", "whole"), [(0, 0), (1, 41), (2, 41)])
def test_an_error_of_the_whole_request_is_told_for_each_partition_too(tell, loop, version, whole):
    loop.error = NotController()
    assert codes(tell(("a", [0, 1]), version=version)) == (whole, {("a", 0): 41, ("a", 1): 41})


def test_there_are_two_types_of_elections(tell):
    assert codes(tell(("a", [0]), election_type=5)) == (42, {("a", 0): 42})


def lose(loop, partitions):
    """A topic whose only in-sync replica is gone."""
    loop.broker(5)
    loop.topic("lost", assignments=list(enumerate(partitions)))
    lost = loop.image.topics.by_name["lost"]
    epoch = loop.image.cluster.brokers[5].epoch
    for index in range(len(partitions)):
        alone = IsrRequest(lost.id, index, 0, 0, (InSync(5),))
        loop.write(loop.machine.alter_partition(5, epoch, [alone]))
    loop.write(loop.machine.heartbeat(Heartbeat(5, epoch, epoch, want_fence=True), 0))
    assert {partition.leader for partition in loop.image.topics.by_name["lost"].partitions.values()} == {-1}


def test_an_unclean_election_is_won_by_the_longest_log(tell, loop):
    loop.broker(4)
    lose(loop, [(5, 1, 4), (5, 1, 2)])
    answer = tell(("lost", [0, 1]), ("a", [0]), election_type=1)
    assert codes(answer) == (0, {("lost", 0): 0, ("lost", 1): 0, ("a", 0): 84})
    partitions = loop.image.topics.by_name["lost"].partitions
    assert [(partition.leader, partition.isr) for partition in partitions.values()] == [(4, (4,)), (2, (2,))]


def test_the_replicas_of_many_partitions_are_asked_for_at_once(tell, loop):
    asked = []

    async def told(broker, request):
        asked.append(broker)
        return await replicas(broker, request)

    many = 3 * AT_A_TIME
    lose(loop, [(5, 1, 2)] * many)
    answer = tell(("lost", range(many)), told=told, election_type=1)
    assert codes(answer) == (0, {("lost", index): 0 for index in range(many)})
    assert sorted(asked) == [1, 2]


def test_all_that_are_recovered_are_told_where_no_list_is_given(tell, loop):
    lose(loop, [(5, 1, 2)])
    assert codes(tell(topic_partitions=None, election_type=1)) == (0, {("lost", 0): 0})

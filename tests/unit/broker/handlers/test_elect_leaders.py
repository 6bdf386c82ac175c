"""Elect leaders: every outcome is one error code."""

from __future__ import annotations

import pytest

from kavka.broker.handlers.elect_leaders import elect_leaders
from kavka.model.errors import NotController
from kavka.protocol.schemas.elect_leaders import ElectLeadersRequest, TopicPartitions


@pytest.fixture
def tell(ask, loop):
    loop.broker(2)
    loop.broker(3, unfence=False)
    loop.topic("a", assignments=[(0, (1, 2)), (1, (3, 1))])

    def call(*partitions, version=2, **more):
        rows = [TopicPartitions(topic=name, partitions=list(indexes)) for name, indexes in partitions]
        request = ElectLeadersRequest(**{"topic_partitions": rows, **more})
        return ask(elect_leaders, request, version, loop)

    return call


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

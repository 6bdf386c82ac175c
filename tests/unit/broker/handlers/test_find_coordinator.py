"""Find coordinator: every outcome is one error code."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from kavka.broker.coordination import GroupCoordination
from kavka.broker.handlers.find_coordinator import find_coordinator
from kavka.broker.sharing import ShareCoordination
from kavka.broker.transactions import TransactionCoordination
from kavka.controller.topics import NewTopic
from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest
from kavka.quorum.internal_topics import create
from kavka.quorum.topic_creation import TopicCreation
from kavka.runtime.coordinators import LogCoordinator, NodeCoordinators
from kavka.runtime.shards import Shards, partition_of


class Loaded(LogCoordinator):
    """A coordinator whose keys are all there; its topic is that of a real one."""

    def __init__(self, like=GroupCoordination, there=True):
        self.key_type = like.key_type
        self.internal_topic = partial(like.internal_topic, self)
        self.check_key = partial(like.check_key, self)
        self.shards = Shards(TOPICS[like], 50, None, None, None, None)
        self.asked = []
        self.there = there

    async def serves(self, key):
        self.asked.append(key)
        return self.there


TOPICS = {
    GroupCoordination: "__consumer_offsets",
    TransactionCoordination: "__transaction_state",
    ShareCoordination: "__share_group_state",
}


def node(groups=None):
    """The coordinators of a node."""
    coordinators = NodeCoordinators()
    coordinators.add(groups or Loaded())
    coordinators.add(Loaded(TransactionCoordination))
    coordinators.add(Loaded(ShareCoordination))
    return coordinators


SHARE_KEY = "g:AAAAAAAAAAAAAAAAAAAAAQ:0"


@pytest.fixture
def tell(ask, loop):
    def call(key, kind=0, version=6, **more):
        how = {"key_type": kind} if version else {}
        if version < 4:
            return ask(
                find_coordinator,
                FindCoordinatorRequest(key=key, **how),
                version,
                loop,
                node(),
                loop.settings,
                TopicCreation(loop),
                **more,
            )
        request = FindCoordinatorRequest(coordinator_keys=[key], **how)
        return ask(
            find_coordinator, request, version, loop, node(), loop.settings, TopicCreation(loop), **more
        ).coordinators[0]

    return call


@pytest.mark.parametrize("version", range(7))
def test_this_node_coordinates_everything(tell, version):
    row = tell("g", version=version)
    assert (row.error_code, row.node_id, row.host, row.port) == (0, 1, "plaintext1", 9092)


def test_the_address_is_that_of_the_listener(tell):
    assert tell("g", listener="LAN").host == "lan1"
    assert tell("g", listener="OTHER").error_code == 15


def test_several_keys_have_a_row_each(ask, loop):
    request = FindCoordinatorRequest(coordinator_keys=["a", "b"], key_type=1)
    assert [
        row.key
        for row in ask(find_coordinator, request, 4, loop, node(), loop.settings, TopicCreation(loop)).coordinators
    ] == [
        "a",
        "b",
    ]


@pytest.mark.parametrize(
    ("key", "kind", "version", "code"),
    [
        ("g", 9, 1, 42),
        ("g", 9, 6, 42),
        (SHARE_KEY, 2, 6, 0),
        (SHARE_KEY, 2, 5, 42),
        ("g", 2, 6, 42),
        ("g:x:0", 2, 6, 42),
        ("g:AAAAAAAAAAAAAAAAAAAAAQ:x", 2, 6, 42),
        (":AAAAAAAAAAAAAAAAAAAAAQ:0", 2, 6, 42),
    ],
)
def test_a_key_that_nobody_coordinates_is_an_invalid_request(tell, key, kind, version, code):
    row = tell(key, kind, version)
    assert row.error_code == code
    assert row.node_id == (-1 if code else 1)


def test_the_offsets_topic_is_created_when_it_is_first_asked_for(tell, loop):
    tell("g", kind=1)
    assert "__consumer_offsets" not in loop.image.topics.by_name
    tell("g")
    topic = loop.image.topics.by_name["__consumer_offsets"]
    assert len(topic.partitions) == 50
    assert topic.partitions[0].replicas == (1,)
    assert dict(loop.image.configs.of_topic("__consumer_offsets")) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    tell("h")
    assert loop.image.topics.by_name["__consumer_offsets"] is topic


def test_a_group_is_coordinated_by_the_leader_of_its_partition(tell, loop):
    loop.broker(2)
    tell("any")
    leaders = loop.image.topics.by_name["__consumer_offsets"].partitions
    for group in ("a", "b", "my-consumer-group", "polygenelubricants"):
        assert tell(group).node_id == leaders[partition_of(group, 50)].leader


def test_a_number_of_replicas_that_was_asked_for_is_insisted_on(ask, loops):
    loop = loops(offsets_topic_replication_factor=3)
    request = FindCoordinatorRequest(coordinator_keys=["g"], key_type=0)
    row = ask(find_coordinator, request, 4, loop, node(), loop.settings, TopicCreation(loop)).coordinators[0]
    assert (row.error_code, row.node_id) == (15, -1)
    assert "replication" in row.error_message


def test_a_topic_that_another_node_created_meanwhile_is_as_good(loop):
    loop.topic("__consumer_offsets", partitions=7)
    asyncio.run(create(TopicCreation(loop), NewTopic("__consumer_offsets", 50, 1)))
    assert len(loop.image.topics.by_name["__consumer_offsets"].partitions) == 7


def test_the_answer_waits_for_groups_that_are_coordinated_here(ask, loop):
    groups = Loaded()
    request = FindCoordinatorRequest(coordinator_keys=["a", "b"], key_type=0)
    ask(find_coordinator, request, 4, loop, node(groups), loop.settings, TopicCreation(loop))
    assert groups.asked == ["a", "b"]
    ask(find_coordinator, request, 4, loop, node(groups), loop.settings, TopicCreation(loop), listener="OTHER")
    assert groups.asked == ["a", "b"]


def test_a_group_that_is_not_here_yet_is_nowhere(ask, loop):
    request = FindCoordinatorRequest(coordinator_keys=["a"], key_type=0)
    row = ask(
        find_coordinator, request, 4, loop, node(Loaded(there=False)), loop.settings, TopicCreation(loop)
    ).coordinators[0]
    assert (row.error_code, row.node_id) == (15, -1)

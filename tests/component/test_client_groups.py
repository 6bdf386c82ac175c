"""The group consumer and the admin of groups against a real node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kavka.client import Admin, GroupConsumer, Producer, TopicPartition
from kavka.model.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidRegularExpression,
    NonEmptyGroup,
    OffsetOutOfRange,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from kavka.testing import Cluster

QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.assignment.interval.ms": "0",
}
PROTOCOLS = ["consumer", "classic"]
CLASSIC = {"session_timeout_ms": 1500, "heartbeat_interval_ms": 100}


@pytest.fixture(scope="module")
def node():
    """A node on which rebalances are quick."""
    with Cluster(config=QUICK) as cluster:
        yield cluster


@pytest.fixture
def play(node, request):
    """Runs a scenario with a fresh topic of three partitions that has thirty records."""
    name = f"t{abs(hash(request.node.name)) % 10**9}"

    def run(scenario: Callable[..., Awaitable[None]]) -> None:
        async def whole() -> None:
            async with asyncio.timeout(60):
                async with Admin(node.bootstrap) as admin:
                    await admin.create_topic(name, partitions=3)
                async with Producer(node.bootstrap) as producer:
                    for number in range(30):
                        await producer.send(name, b"%d" % number, partition=number % 3)
                await scenario(node.bootstrap, name)

        asyncio.run(whole())

    return run


def member(bootstrap: str, topic: str, **options: Any) -> GroupConsumer:
    """A member of a group of the topic's name."""
    more = {**CLASSIC, **options} if options.get("protocol") == "classic" else options
    wish = {"topics": [topic]} if "pattern" not in options else {}
    return GroupConsumer(bootstrap, group=topic, **{"start": "start", **wish, **more})


async def read(consumer: GroupConsumer, count: int) -> list[bytes]:
    """So many values, in order."""
    found: list[bytes] = []
    while len(found) < count:
        found += [record.value or b"" for record in await consumer.read(at_most=count - len(found))]
    return sorted(found, key=int)


def numbers(count: int = 30, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, count)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_lone_member_reads_everything_and_the_next_goes_on_behind_it(play, protocol):
    async def scenario(bootstrap, topic):
        async with member(bootstrap, topic, protocol=protocol) as consumer:
            assert await read(consumer, 30) == numbers()
            assert len(consumer.assignment) == 3
        async with Producer(bootstrap) as producer:
            await producer.send(topic, b"30", partition=0)
        async with member(bootstrap, topic, protocol=protocol) as consumer:
            assert await read(consumer, 1) == [b"30"]

    play(scenario)


@pytest.mark.parametrize("options", [{}, {"protocol": "classic", "assignor": "cooperative-sticky"}], ids=PROTOCOLS)
def test_giving_back_may_take_longer_than_a_read(play, options):
    told: list[str] = []

    async def give_back(partitions):
        told.append("begins")
        await asyncio.sleep(0.3)
        told.append("ends")

    async def scenario(bootstrap, topic):
        async with member(bootstrap, topic, on_revoked=give_back, **options) as first:
            while len(first.assignment) < 3:
                await first.read(10)
            async with member(bootstrap, topic, **options) as second:
                while len(first.assignment) + len(second.assignment) < 3 or not second.assignment:
                    await first.read(10)
                    await second.read(10)
                assert told == ["begins", "ends"]

    play(scenario)


def test_a_fault_of_who_is_told_reaches_who_reads(play):
    def fail(partitions):
        raise RuntimeError("the user's fault")

    async def scenario(bootstrap, topic):
        async with member(bootstrap, topic, on_assigned=fail) as consumer:
            with pytest.raises(RuntimeError, match="the user's fault"):
                await read(consumer, 1)
            assert await read(consumer, 30) == numbers()

    play(scenario)


def test_only_what_was_dealt_with_is_committed_when_the_user_fails(play):
    async def scenario(bootstrap, topic):
        async def fail_at_the_fifth():
            async with member(bootstrap, topic, auto_commit_ms=60_000) as consumer:
                seen = 0
                async for _ in consumer:
                    seen += 1
                    if seen == 5:
                        raise RuntimeError("the user's fault")

        with pytest.raises(RuntimeError):
            await fail_at_the_fifth()
        async with Admin(bootstrap) as admin:
            committed = await admin.group_offsets(topic)
        assert sum(each.offset for each in committed.values()) == 4

    play(scenario)


async def committed(bootstrap: str, group: str) -> tuple[int, int]:
    """How many members a group has, and the sum of what it has committed."""
    async with Admin(bootstrap) as admin:
        offsets = await admin.group_offsets(group)
        return len((await admin.describe_group(group)).members), sum(each.offset for each in offsets.values())


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("asks_for_more", "dealt_with"), [(True, 30), (False, 0)], ids=["asking", "working"])
def test_a_member_that_is_cancelled_commits_what_was_dealt_with_and_leaves(play, protocol, asks_for_more, dealt_with):
    async def scenario(bootstrap, topic):
        read_all = asyncio.Event()

        async def work():
            async with member(bootstrap, topic, protocol=protocol, auto_commit_ms=60_000) as consumer:
                while asks_for_more:
                    if (
                        await consumer.read(timeout_ms=100) == []
                        and sum(map(consumer.position, consumer.assignment)) == 30
                    ):
                        read_all.set()
                await consumer.read()
                read_all.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await read_all.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await committed(bootstrap, topic) == (0, dealt_with)

    play(scenario)


def test_a_member_that_begins_at_the_end_remembers_where_that_was(play):
    async def scenario(bootstrap, topic):
        async with member(bootstrap, topic, start="latest") as consumer:
            while len(consumer.assignment) < 3:
                await consumer.read(timeout_ms=50)
        async with Producer(bootstrap) as producer:
            await producer.send(topic, b"30")
        async with member(bootstrap, topic, start="latest") as consumer:
            assert await read(consumer, 1) == [b"30"]

    play(scenario)


def test_who_has_read_up_to_the_end_of_a_transaction_has_nothing_left_to_read(play):
    async def scenario(bootstrap, topic):
        async with Producer(bootstrap, transactional_id=topic) as producer, producer.transaction():
            await producer.send(topic, b"30", partition=0)
        async with member(bootstrap, topic, isolation="read_committed") as consumer:
            await read(consumer, 31)
            while consumer.position(TopicPartition(topic, 0)) < 12:  # the record, and the marker behind it
                await consumer.read(timeout_ms=50)
        assert await committed(bootstrap, topic) == (0, 32)

    play(scenario)


def test_without_auto_commit_only_the_user_commits(play):
    async def scenario(bootstrap, topic):
        async with member(bootstrap, topic, auto_commit_ms=None) as consumer:
            await read(consumer, 30)
            tp = TopicPartition(topic, 1)
            assert await consumer.committed(tp) == {tp: None}
            await consumer.commit({tp: 7})
            assert await consumer.committed(tp) == {tp: 7}
        async with Admin(bootstrap) as admin:
            assert {tp: each.offset for tp, each in (await admin.group_offsets(topic)).items()} == {tp: 7}

    play(scenario)


def test_offsets_are_committed_from_time_to_time(play):
    async def scenario(bootstrap, topic):
        async with member(bootstrap, topic, auto_commit_ms=50) as consumer, Admin(bootstrap) as admin:
            await read(consumer, 30)
            committed = 0
            while committed < 30:
                await consumer.read(timeout_ms=20)
                committed = sum(each.offset for each in (await admin.group_offsets(topic)).values())

    play(scenario)


def test_a_member_can_go_back(play):
    async def scenario(bootstrap, topic):
        async with member(bootstrap, topic) as consumer:
            await read(consumer, 30)
            await consumer.seek("start")
            assert await read(consumer, 30) == numbers()
            with pytest.raises(RuntimeError, match="the group assigns partitions"):
                await consumer.assign(topic)

    play(scenario)


@pytest.mark.parametrize(
    "options",
    [
        {"protocol": "consumer"},
        {"protocol": "classic", "assignor": "range"},
        {"protocol": "classic", "assignor": "cooperative-sticky"},
    ],
)
def test_partitions_move_to_a_second_member_and_back(play, options):
    async def scenario(bootstrap, topic):
        told: list[tuple[str, int]] = []
        callbacks = {
            "on_assigned": lambda some: told.append(("has", len(some))),
            "on_revoked": lambda some: told.append(("gave back", len(some))),
        }
        async with member(bootstrap, topic, **options, **callbacks) as first:
            await read(first, 30)
            assert told == [("has", 3)]
            async with member(bootstrap, topic, **options) as second:
                while not (second.assignment and first.assignment and len(first.assignment + second.assignment) == 3):
                    await asyncio.gather(first.read(timeout_ms=20), second.read(timeout_ms=20))
                assert not set(first.assignment) & set(second.assignment)
            while len(first.assignment) < 3:
                await first.read(timeout_ms=20)
        moved = sum(number for what, number in told if what == "gave back")
        assert moved >= 1 if options.get("assignor") == "range" else moved in (1, 2)
        assert sum(number for what, number in told if what == "has") == 3 + moved

    play(scenario)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_that_does_not_ask_loses_its_partitions_and_gets_them_back(play, protocol):
    async def scenario(bootstrap, topic):
        lost: list[int] = []
        slow = member(
            bootstrap, topic, protocol=protocol, rebalance_timeout_ms=600, on_lost=lambda some: lost.append(len(some))
        )
        async with slow, Admin(bootstrap) as admin:
            await read(slow, 30)
            while (await admin.describe_group(topic)).members:
                await asyncio.sleep(0.05)
            while not lost or len(slow.assignment) < 3:
                await slow.read(timeout_ms=20)
        assert lost == [3]

    play(scenario)


def test_a_pattern_is_matched_by_the_brokers(play):
    async def scenario(bootstrap, topic):
        async with member(bootstrap, topic, pattern=f"{topic[:-1]}.") as consumer:
            assert await read(consumer, 30) == numbers()

    play(scenario)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"pattern": "("}, InvalidRegularExpression),
        ({"assignor": "best"}, UnsupportedAssignor),
        ({"start": "error"}, OffsetOutOfRange),
    ],
)
def test_what_the_group_refuses_is_raised_to_whoever_reads(play, options, error):
    async def scenario(bootstrap, topic):
        async with member(bootstrap, topic, **options) as consumer:
            with pytest.raises(error):
                await read(consumer, 1)

    play(scenario)


@pytest.mark.parametrize(
    "options",
    [
        {"group": ""},
        {"topics": [], "pattern": None},
        {"pattern": "x"},
        {"protocol": "share"},
        {"start": "beginning"},
        {"out_of_range": "beginning"},
        {"protocol": "classic", "topics": [], "pattern": "x"},
    ],
)
def test_what_makes_no_sense_is_refused_at_once(options):
    with pytest.raises(ValueError):
        GroupConsumer("127.0.0.1:1", **{"group": "g", "topics": ["t"], **options})


def test_a_topic_is_not_a_list_of_letters():
    with pytest.raises(TypeError, match=r"topics=\['orders'\]"):
        GroupConsumer("127.0.0.1:1", group="g", topics="orders")


def test_earliest_is_the_start(play):
    async def scenario(bootstrap, topic):
        async with member(bootstrap, topic, start="earliest") as consumer:
            assert await read(consumer, 30) == numbers()

    play(scenario)


def test_a_static_member_that_comes_back_has_what_it_had(play):
    async def scenario(bootstrap, topic):
        for _ in range(2):
            async with member(bootstrap, topic, instance_id="seat") as consumer:
                await consumer.read(timeout_ms=500)
                while len(consumer.assignment) < 3:
                    await consumer.read(timeout_ms=20)
        async with Admin(bootstrap) as admin:
            (kept,) = (await admin.describe_group(topic)).members
            assert (kept.instance_id, len(kept.partitions)) == ("seat", 3)

    play(scenario)


def test_a_seat_that_is_taken_is_not_given_away(play):
    async def scenario(bootstrap, topic):
        async with member(bootstrap, topic, instance_id="seat") as first:
            await read(first, 30)
            async with member(bootstrap, topic, instance_id="seat") as second:
                with pytest.raises((UnreleasedInstanceId, FencedInstanceId)):
                    await read(second, 1)

    play(scenario)


def test_groups_are_listed_described_reset_and_deleted(play):
    async def scenario(bootstrap, topic):
        async with Admin(bootstrap) as admin:
            async with member(bootstrap, topic) as consumer:
                await read(consumer, 30)
                await consumer.commit()
                listed = {one.id: one for one in await admin.list_groups(types=["consumer"])}
                assert (listed[topic].state, listed[topic].coordinator) == ("Stable", 1)
                described = await admin.describe_group(topic)
                assert [len(one.partitions) for one in described.members] == [3]
                assert described.members[0].id == consumer.member_id
                with pytest.raises(NonEmptyGroup):
                    await admin.delete_group(topic)
                with pytest.raises(UnknownMemberId):
                    await admin.alter_group_offsets(topic, {TopicPartition(topic, 0): 1})
                with pytest.raises(GroupSubscribedToTopic):
                    await admin.delete_group_offsets(topic, [TopicPartition(topic, 0)])
            await admin.alter_group_offsets(topic, {TopicPartition(topic, 0): 1})
            await admin.delete_group_offsets(topic, [TopicPartition(topic, 2)])
            left = {tp.partition: each.offset for tp, each in (await admin.group_offsets(topic)).items()}
            assert left == {0: 1, 1: 10}
            await admin.delete_group(topic)
            with pytest.raises(GroupIdNotFound):
                await admin.describe_group(topic)

    play(scenario)


def test_the_blocking_face_reads_and_commits(node):
    from kavka.client import blocking

    with blocking.Client(node.bootstrap) as client:
        client.admin.create_topic("blocking-group", partitions=2)
        with client.producer() as producer:
            for number in range(10):
                producer.send("blocking-group", b"%d" % number)
        with client.group_consumer("blockers", "blocking-group", start="start") as consumer:
            found: list[Any] = []
            while len(found) < 10:
                found += consumer.read()
            consumer.commit()
            assert sum(at or 0 for at in consumer.committed().values()) == 10
            assert len(consumer.assignment) == 2


@pytest.mark.parametrize("fails", [True, False])
def test_a_blocking_loop_that_ends_early_commits_only_what_it_has_dealt_with(node, fails):
    from kavka.client import blocking

    topic = group = f"blocking-{fails}"
    with blocking.Client(node.bootstrap) as client:
        client.admin.create_topic(topic)
        with client.producer() as producer:
            for number in range(10):
                producer.send(topic, b"%d" % number)

        def deal_with_five() -> None:
            with client.group_consumer(group, topic, start="start") as consumer:
                for record in consumer:
                    if record.offset == 4 and fails:
                        raise RuntimeError("the user's fault")
                    if record.offset == 4:
                        break

        if fails:
            with pytest.raises(RuntimeError, match="the user's fault"):
                deal_with_five()
        else:
            deal_with_five()
        (committed,) = client.admin.group_offsets(group).values()
        assert committed.offset == (4 if fails else 5)
        assert client.admin.describe_group(group).members == ()


def test_groups_are_described_and_deleted_together(node):
    from kavka.client import blocking

    with blocking.Client(node.bootstrap) as client:
        client.admin.create_topic("several-groups")
        for group in ("one", "two"):
            client.admin.alter_group_offsets(group, {TopicPartition("several-groups", 0): 0})
        found = client.admin.describe_groups(["one", "two", "one"])
        assert [(name, each.id) for name, each in found.items()] == [("one", "one"), ("two", "two")]
        with pytest.raises(GroupIdNotFound):
            client.admin.delete_groups(["one", "three", "two"])
        assert {"one", "two"}.isdisjoint(each.id for each in client.admin.list_groups())

"""Share groups on a node: members that fetch, acknowledge, stall and vanish, spoken to by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from component.share_member import ACCEPT, REJECT, RELEASE, RENEW, Member, World, acquired, code, values, world_at
from kavka.broker.metrics import SHARE_COUNTS
from kavka.client import Consumer, Producer
from kavka.protocol.schema import replace
from kavka.protocol.schemas import alter_share_group_offsets as altering
from kavka.protocol.schemas import delete_share_group_offsets as forgetting
from kavka.protocol.schemas import describe_share_group_offsets as positions
from kavka.protocol.schemas import read_share_group_state as reading
from kavka.protocol.schemas import write_share_group_state as writing
from kavka.protocol.schemas.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kavka.protocol.schemas.list_groups import ListGroupsRequest, ListGroupsResponse
from kavka.protocol.schemas.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kavka.testing.local import free_ports

T0 = ("orders", 0)


async def prepared(world: World, group: str = "g", partitions: int = 1, **settings: str) -> None:
    """A topic, and a group that begins at its start."""
    request = FindCoordinatorRequest(coordinator_keys=[group], key_type=0)
    await world.ask(request, FindCoordinatorResponse, 6)
    await world.create("orders", partitions)
    named = {key.replace("_", "."): text for key, text in settings.items()}
    await world.configure(group, {"share.auto.offset.reset": "earliest", **named})


async def opened(member: Member, *partitions: tuple[str, int]) -> None:
    """A session, and its partitions loaded."""
    answer = await member.fetch(partitions or (T0,), wait_ms=50, max_records=0)
    assert answer.error_code == 0


def test_records_are_delivered_once_and_accepted_for_good(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await prepared(world)
            await world.produce("orders", 10)
            first = await Member.make(world)
            await first.join("orders")
            answer = await first.fetch([T0], wait_ms=5000)
            assert sum(last - low + 1 for low, last, _ in acquired(answer)) == 10
            assert values(answer) == [f"v{number}".encode() for number in range(10)]
            assert answer.acquisition_lock_timeout_ms == 30_000
            second = await Member.make(world, member_id="m2")
            assert acquired(await second.fetch([T0])) == []
            assert code(await first.acknowledge({T0: [(0, 9, [ACCEPT])]})) == 0
            assert acquired(await second.fetch()) == []
            assert (await lag_of(world))[1] == 0
        async with world_at(tmp_path) as world:  # what was accepted is accepted after a restart
            world.topic_ids["orders"] = next(iter(first.assigned))
            await world.produce("orders", 1, first=10)
            third = await Member.make(world, member_id="m3")
            answer = await third.fetch([T0], wait_ms=5000)
            assert (acquired(answer), values(answer)) == ([(10, 10, 1)], [b"v10"])

    asyncio.run(scenario())


async def lag_of(world: World, group: str = "g") -> tuple[int, int]:
    asked = positions.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    request = positions.DescribeShareGroupOffsetsRequest(groups=[asked])
    answer = await world.ask(request, positions.DescribeShareGroupOffsetsResponse, 1)
    assert answer.groups[0].error_code == 0, answer
    (row,) = answer.groups[0].topics[0].partitions
    return row.start_offset, row.lag


def test_what_is_released_comes_again_and_what_is_rejected_does_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await prepared(world)
            await world.produce("orders", 3)
            one, other = await Member.make(world), await Member.make(world, member_id="m2")
            await one.join("orders")
            await one.fetch([T0], wait_ms=5000)
            await opened(other)
            waiting = asyncio.ensure_future(other.fetch(wait_ms=20_000))
            answer = await one.acknowledge({T0: [(0, 2, [ACCEPT, RELEASE, REJECT])]})
            assert code(answer) == 0
            assert acquired(await waiting) == [(1, 1, 2)]  # woken by the acknowledgement, with a later count
            answer = await other.fetch(said={T0: [(1, 1, [ACCEPT])]})
            (row,) = answer.responses[0].partitions
            assert (row.error_code, row.acknowledge_error_code) == (0, 0)
            assert (await lag_of(world))[1] == 0

    asyncio.run(scenario())


def test_what_becomes_of_records_is_shown_in_numbers(tmp_path: Path) -> None:
    (port,) = free_ports(1)

    async def scenario() -> None:
        async with world_at(tmp_path, {"kavka.metrics.listener": f"127.0.0.1:{port}"}) as world:
            await prepared(world)
            await world.produce("orders", 3)
            member = await Member.make(world)
            await member.join("orders")
            await member.fetch([T0], wait_ms=5000)
            assert code(await member.acknowledge({T0: [(0, 2, [ACCEPT, RELEASE, REJECT])]})) == 0
            assert acquired(await member.fetch(wait_ms=5000)) == [(1, 1, 2)]
            page = await asyncio.to_thread(lambda: urlopen(f"http://127.0.0.1:{port}/metrics").read().decode())
            numbers = dict(line.rsplit(" ", 1) for line in page.splitlines() if line.startswith("kavka_share"))
            labels = next(key[key.index("{") :] for key in numbers if key.startswith("kavka_share_lag"))
            assert all(text in labels for text in ('"g"', '"orders"', '"0"'))
            assert float(numbers[f"kavka_share_in_flight_records{labels}"]) == 2
            assert float(numbers[f"kavka_share_lag_records{labels}"]) == 1
            totals = {name: float(numbers[f"kavka_share_{name}_records_total"]) for name in SHARE_COUNTS}
            assert totals == {
                "acquired": 4, "redelivered": 1, "accepted": 1, "released": 1, "expired": 0, "archived": 1,
            }  # fmt: skip
            assert float(numbers["kavka_share_sessions"]) == 1

    asyncio.run(scenario())


def test_a_fetch_that_waits_is_woken_by_an_append(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await prepared(world)
            member = await Member.make(world)
            await member.join("orders")
            await opened(member)
            waiting = asyncio.ensure_future(member.fetch(wait_ms=20_000))
            await asyncio.sleep(0)
            await world.produce("orders", 1)
            assert values(await waiting) == [b"v0"]

    asyncio.run(scenario())


def test_what_a_member_held_is_free_when_its_connection_or_its_session_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await prepared(world)
            await world.produce("orders", 2)
            lost, done, heir = [await Member.make(world, member_id=name) for name in ("m1", "m2", "m3")]
            await lost.join("orders")
            assert acquired(await lost.fetch([T0], wait_ms=5000, max_records=1, mode=1)) == [(0, 0, 1)]
            assert acquired(await done.fetch([T0], max_records=1, mode=1)) == [(1, 1, 1)]
            await opened(heir)
            waiting = asyncio.ensure_future(heir.fetch(wait_ms=20_000, max_records=1, mode=1))
            lost.connection.close()
            assert acquired(await waiting) == [(0, 0, 2)]
            waiting = asyncio.ensure_future(heir.fetch(wait_ms=20_000, max_records=1, mode=1))
            answer = await done.acknowledge({}, epoch=-1)
            assert answer.error_code == 0
            assert acquired(await waiting) == [(1, 1, 2)]

    asyncio.run(scenario())


def test_a_lock_ends_is_renewed_and_the_record_is_archived_at_its_limit(tmp_path: Path) -> None:
    short = {"group.share.min.record.lock.duration.ms": "1000", "group.share.record.lock.duration.ms": "1000"}

    async def scenario() -> None:
        async with world_at(tmp_path, short) as world:
            await prepared(world, share_delivery_count_limit="2")
            await world.produce("orders", 1)
            member = await Member.make(world)
            await member.join("orders")
            assert acquired(await member.fetch([T0], wait_ms=5000)) == [(0, 0, 1)]
            renewed = await member.acknowledge({T0: [(0, 0, [RENEW])]}, renews=True)
            assert (code(renewed), renewed.acquisition_lock_timeout_ms) == (0, 1000)
            answer = await member.fetch(said={T0: [(0, 0, [RENEW])]}, renews=True)
            assert answer.responses[0].partitions[0].acknowledge_error_code == 0
            assert acquired(await member.fetch(wait_ms=20_000)) == [(0, 0, 2)]  # the lock has ended
            assert code(await member.acknowledge({T0: [(0, 0, [RELEASE])]})) == 0
            assert acquired(await member.fetch()) == []
            assert (await lag_of(world))[1] == 0
            assert code(await member.acknowledge({T0: [(0, 0, [ACCEPT])]})) == 0  # before the start: let through

    asyncio.run(scenario())


def test_what_is_asked_for_at_most_counts_over_all_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await prepared(world, partitions=2)
            for partition in (0, 1):
                await world.produce("orders", 5, partition)
            member = await Member.make(world)
            await member.join("orders")
            both = [("orders", 0), ("orders", 1)]
            await opened(member, *both)
            while not (found := acquired(await member.fetch(max_records=7, mode=1, wait_ms=1000))):
                pass
            assert sum(last - first + 1 for first, last, _ in found) == 7

    asyncio.run(scenario())


def test_sessions_and_acknowledgements_that_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await prepared(world)
            await world.produce("orders", 4)
            member, other = await Member.make(world), await Member.make(world, member_id="m2")
            await member.join("orders")
            assert (await member.fetch(epoch=3)).error_code == 122
            assert (await member.fetch(epoch=-1)).error_code == 122
            assert (await member.acknowledge({}, epoch=0)).error_code == 123
            assert (await member.acknowledge({}, epoch=1)).error_code == 122
            assert (await member.fetch(said={T0: [(0, 0, [ACCEPT])]}, epoch=0)).error_code == 42
            assert acquired(await member.fetch([T0], wait_ms=5000)) != []
            assert (await member.fetch(epoch=7)).error_code == 123
            for batches, expected in (
                ([(3, 1, [ACCEPT])], 42),
                ([(2, 2, [ACCEPT]), (0, 0, [ACCEPT])], 42),
                ([(0, 0, [])], 42),
                ([(0, 3, [ACCEPT, ACCEPT])], 42),
                ([(0, 0, [5])], 42),
                ([(0, 0, [RENEW])], 42),
                ([(0, 99, [ACCEPT])], 42),
            ):
                assert code(await member.acknowledge({T0: batches})) == expected, batches
            await other.fetch([T0])
            assert code(await other.acknowledge({T0: [(0, 0, [ACCEPT])]})) == 121
            world.topic_ids["nowhere"] = type(world.topic_ids["orders"])(b"z" * 16)
            assert code(await other.acknowledge({("nowhere", 0): [(0, 0, [ACCEPT])]})) == 100
            assert code(await other.acknowledge({("orders", 9): [(0, 0, [ACCEPT])]})) == 3
            (row,) = (await other.fetch([("nowhere", 0)])).responses[0].partitions
            assert row.error_code == 100
            other.id = ""
            assert (await other.fetch([T0], epoch=0)).error_code == 42
            other.id = "x" * 37
            assert (await other.fetch([T0], epoch=0)).error_code == 42

    asyncio.run(scenario())


def test_a_group_is_described_listed_moved_and_deleted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await prepared(world)
            await world.produce("orders", 5)
            member = await Member.make(world)
            await member.join("orders")
            described = await describe(world, "g", "other")
            assert [(one.group_id, one.error_code, one.group_state) for one in described] == [
                ("g", 0, "Stable"),
                ("other", 69, ""),
            ]
            (seen,) = described[0].members
            assert seen.assignment.topic_partitions[0].topic_name == "orders"
            listed = await world.ask(ListGroupsRequest(states_filter=[], types_filter=["share"]), ListGroupsResponse, 5)
            assert [(one.group_id, one.group_type, one.group_state) for one in listed.groups] == [
                ("g", "share", "Stable")
            ]
            assert (await alter(world, "g", 3)).error_code == 68
            assert await delete_group(world, "g") == 68
            assert await member.heartbeat(epoch=-1) == 0
            answer = await alter(world, "g", 3)
            assert [row.error_code for row in answer.responses[0].partitions] == [0, 3]
            assert await lag_of(world) == (3, 2)
            assert (await alter(world, "new", 1)).error_code == 0
            assert await lag_of(world, "new") == (1, 4)
            gone = await forget(world, "g")
            assert [(row.topic_name, row.error_code) for row in gone.responses] == [("orders", 0)]
            gone = await forget(world, "g")
            assert [(row.topic_name, row.error_code) for row in gone.responses] == [("orders", 3)]
            assert (await forget(world, "nobody")).error_code == 69
            assert [await delete_group(world, name) for name in ("g", "new", "nobody")] == [0, 0, 69]
            assert [one.error_code for one in await describe(world, "g")] == [69]

    asyncio.run(scenario())


async def dead_letters(world: World, count: int) -> list[Any]:
    async with Consumer(world.bootstrap) as consumer:
        await consumer.assign("dlq", start="start")
        found: list[Any] = []
        while len(found) < count:
            found += await consumer.read()
        return found + await consumer.read(300)


def test_records_that_are_given_up_become_dead_letters(tmp_path: Path) -> None:
    settings = {
        "errors.deadletterqueue.topic.name": "dlq",
        "errors.deadletterqueue.copy.record.enable": "true",
        "share.delivery.count.limit": "2",
    }

    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await prepared(world)
            await world.create("dlq")
            await world.configure("g", settings)
            await world.produce("orders", 3)
            member = await Member.make(world)
            await member.join("orders")
            await member.fetch([T0], wait_ms=5000)
            assert code(await member.acknowledge({T0: [(0, 2, [REJECT, RELEASE, ACCEPT])]})) == 0
            assert acquired(await member.fetch(wait_ms=5000)) == [(1, 1, 2)]
            assert code(await member.acknowledge({T0: [(1, 1, [RELEASE])]})) == 0
            found = await dead_letters(world, 2)
            seen = [(one.value, dict(one.headers)) for one in found]
            assert [value for value, _ in seen] == [b"v0", b"v1"]
            for number, (_, headers) in enumerate(seen):
                assert headers["__dlq.errors.topic"] == b"orders"
                assert headers["__dlq.errors.group"] == b"g"
                assert headers["__dlq.errors.partition"] == b"0"
                assert headers["__dlq.errors.offset"] == str(number).encode()
                assert headers["__dlq.errors.delivery.count"] == str(number + 1).encode()
            assert (await lag_of(world))[1] == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("written", [True, False], ids=["written", "not written"])
def test_a_leader_that_died_amid_writing_dead_letters_leaves_none_out_and_none_twice(
    tmp_path: Path, written: bool
) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await prepared(world)
            await world.create("dlq")
            await world.configure("g", {"errors.deadletterqueue.topic.name": "dlq"})
            await world.produce("orders", 3)
            member = await Member.make(world)
            await member.join("orders")
            await member.fetch([T0], wait_ms=5000)
            assert code(await member.acknowledge({T0: [(0, 0, [REJECT])]})) == 0
            assert code(await member.acknowledge({T0: [(1, 1, [REJECT])]})) == 0
            assert len(await dead_letters(world, 2)) == 2
            before = (await state_of(world)).dead_letters
            assert before.sequence == 2
            member.connection.close()
            while not (await state_of(world)).state_batches:  # 2 is released
                await asyncio.sleep(0.02)
            # as if the leader had died after it had written 1, or before it wrote 2
            at = 1 if written else 2
            rows = [writing.StateBatch(first_offset=at, last_offset=at, delivery_state=3, delivery_count=9)]
            row = writing.PartitionData(
                partition=0,
                state_epoch=-1,
                leader_epoch=-1,
                start_offset=at,
                delivery_complete_count=2,
                state_batches=rows,
                dead_letters=replace(before, sequence=at),
            )
            topic = writing.WriteStateData(topic_id=world.topic_ids["orders"], partitions=[row])
            request = writing.WriteShareGroupStateRequest(group_id="g", topics=[topic])
            answer = await world.ask(request, writing.WriteShareGroupStateResponse, 1)
            assert answer.results[0].partitions[0].error_code == 0
        topic_id = world.topic_ids["orders"]
        async with world_at(tmp_path) as world:
            world.topic_ids["orders"] = topic_id
            heir = await Member.make(world, member_id="m2")
            if not written:
                await world.produce("orders", 1, first=3)
            at = 2 if written else 3
            assert acquired(await heir.fetch([T0], wait_ms=10_000))[-1][:2] == (at, at)
            if written:
                assert code(await heir.acknowledge({T0: [(2, 2, [REJECT])]})) == 0
            found = await dead_letters(world, 3)
            assert [dict(one.headers)["__dlq.errors.offset"] for one in found] == [b"0", b"1", b"2"]
            assert [(one.key, one.value) for one in found] == [(None, None)] * 3
            after = (await state_of(world)).dead_letters
            assert after == replace(before, sequence=3, number=after.number)

    asyncio.run(scenario())


async def state_of(world: World) -> Any:
    """What the share coordinator has."""
    row = reading.PartitionData(partition=0, leader_epoch=-1)
    topic = reading.ReadStateData(topic_id=world.topic_ids["orders"], partitions=[row])
    request = reading.ReadShareGroupStateRequest(group_id="g", topics=[topic])
    answer = await world.ask(request, reading.ReadShareGroupStateResponse, 0)
    return answer.results[0].partitions[0]


def test_what_was_released_waits_and_does_not_hold_up_the_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await prepared(world, kavka_share_redelivery_delay_ms="1500", share_partition_max_record_locks="100")
            await world.produce("orders", 150)
            member = await Member.make(world)
            await member.join("orders")
            await opened(member)
            while not (first := acquired(await member.fetch(max_records=100, mode=1, wait_ms=1000))):
                pass
            assert (first[0][0], first[-1][1]) == (0, 99)
            assert code(await member.acknowledge({T0: [(0, 99, [RELEASE])]})) == 0
            second = acquired(await member.fetch(max_records=100, mode=1, wait_ms=0))
            assert (second[0][0], {count for _, _, count in second}) == (100, {1})  # past those that wait
            third = acquired(await member.fetch(max_records=100, mode=1, wait_ms=20_000))
            assert (third[0][0], {count for _, _, count in third}) == (0, {2})

    asyncio.run(scenario())


async def describe(world: World, *groups: str) -> list[Any]:
    request = ShareGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=False)
    answer = await world.ask(request, ShareGroupDescribeResponse, 1)
    return sorted(answer.groups, key=lambda one: one.group_id)


async def alter(world: World, group: str, offset: int) -> Any:
    rows = [
        altering.AlterShareGroupOffsetsRequestPartition(partition_index=each, start_offset=offset) for each in (0, 7)
    ]
    topic = altering.AlterShareGroupOffsetsRequestTopic(topic_name="orders", partitions=rows)
    request = altering.AlterShareGroupOffsetsRequest(group_id=group, topics=[topic])
    return await world.ask(request, altering.AlterShareGroupOffsetsResponse, 0)


async def forget(world: World, group: str) -> Any:
    topic = forgetting.DeleteShareGroupOffsetsRequestTopic(topic_name="orders")
    request = forgetting.DeleteShareGroupOffsetsRequest(group_id=group, topics=[topic])
    return await world.ask(request, forgetting.DeleteShareGroupOffsetsResponse, 0)


async def delete_group(world: World, group: str) -> int:
    answer = await world.ask(DeleteGroupsRequest(groups_names=[group]), DeleteGroupsResponse, 2)
    found: int = answer.results[0].error_code
    return found


@pytest.mark.parametrize("committed", [True, False])
def test_records_of_aborted_transactions_are_for_groups_that_read_everything(tmp_path: Path, committed: bool) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            level = "read_committed" if committed else "read_uncommitted"
            await prepared(world, share_isolation_level=level)
            async with Producer(world.bootstrap, transactional_id="t") as producer:
                producer.begin()
                await producer.send("orders", b"aborted")
                await producer.flush()
                await producer.abort()
                async with producer.transaction():
                    await producer.send("orders", b"committed")
            member = await Member.make(world)
            await member.join("orders")
            answer = await member.fetch([T0], wait_ms=5000)
            found = [value for value in values(answer) if value in (b"aborted", b"committed")]
            assert found == ([b"committed"] if committed else [b"aborted", b"committed"])

    asyncio.run(scenario())

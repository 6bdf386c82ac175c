"""`kavka cluster rebalance`, `add`, `decommission` and `remove`: brokers that come and go, and what they hold."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable
from typing import Annotated, Any, Final

import typer

from kavka.cli.balance import Balance, Held, balanced
from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, run
from kavka.cli.output import CommandError, Output, note, print_json, print_rows, write_line
from kavka.cli.placement import Moves
from kavka.client import Admin, ConfigResource, TopicPartition
from kavka.model.errors import UnsupportedVersion

LOOK_SECONDS: Final = 0.5
TELL_SECONDS: Final = 5.0
SAMPLE_SECONDS: Final = 3.0
AT_A_TIME: Final = 20
THROTTLE: Final = 50_000_000
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
CORDONED: Final = "cordoned.log.dirs"

Nodes = Annotated[list[int], typer.Argument(metavar="NODE...", min=0, help="The nodes' ids.")]
Execute = Annotated[bool, typer.Option("--execute", help="Do it and wait, rather than only show what would be moved.")]
ThrottleOption = Annotated[
    int, typer.Option("--throttle", min=0, help="The most bytes a second that each broker copies; 0 for no limit.")
]


def rebalance(
    execute: Execute = False,
    throttle: ThrottleOption = THROTTLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Spread replicas and leaders evenly over the brokers, by size, load and number, and over racks.

    Shows what would be moved; `--execute` moves it, throttled, and tells how far it has come.

    Example: `kavka cluster rebalance --execute`
    """
    run(_scale(bootstrap, timeout, output, (), (), execute=execute, throttle=throttle))


def add(
    node: Nodes,
    execute: Execute = False,
    throttle: ThrottleOption = THROTTLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Give brokers that were started their share of the replicas and leaders.

    Example: `kavka cluster add 4 5 --execute`
    """
    run(_scale(bootstrap, timeout, output, node, (), execute=execute, throttle=throttle))


def decommission(
    node: Nodes,
    execute: Execute = False,
    throttle: ThrottleOption = THROTTLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Move everything away from brokers that are to go; then they can be stopped, and removed.

    They get no new replicas from then on (`cordoned.log.dirs`).

    Example: `kavka cluster decommission 5 --execute`
    """
    run(_scale(bootstrap, timeout, output, (), node, execute=execute, throttle=throttle))


def remove(
    node: Nodes,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Remove brokers that hold nothing any more and were stopped: their vote, if they have one, and their registration.

    Example: `kavka cluster remove 5`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            described = await admin.describe_cluster(include_fenced=True)
            serving = {one.id for one in described.nodes} - described.fenced
            holding = {broker for held in await _held(admin) for broker in held.replicas}
            for one in node:
                if one in holding:
                    raise CommandError(f"node {one} has replicas: `kavka cluster decommission {one}` first")
                if one in serving:
                    raise CommandError(f"node {one} is in service: stop it first")
            voters = {voter.id: voter.directory_id for voter in (await admin.describe_quorum()).voters}
            for one in node:
                if one in voters:
                    await admin.remove_voter(one, voters[one])
                await admin.unregister_broker(one)

    run(work())
    if output is Output.JSON:
        print_json({"removed": node})
    else:
        write_line(f"removed node {', '.join(map(str, node))}")


async def _scale(
    bootstrap: str,
    timeout_seconds: float,
    output: Output,
    coming: Collection[int],
    leaving: Collection[int],
    *,
    execute: bool,
    throttle: int,
) -> None:
    async with Admin(bootstrap, timeout_ms=int(timeout_seconds * 1000)) as admin:
        racks = {node.id: node.rack for node in (await admin.describe_cluster()).nodes}
        strange = sorted({*coming, *leaving} - racks.keys())
        if strange:
            raise CommandError(f"no broker in service: {', '.join(map(str, strange))}")
        if execute:
            balanced(await _held(admin), racks, leaving)  # refuses what cannot be before anything is changed
            await _cordon(admin, leaving, coming)
        plan = balanced(await _held(admin, SAMPLE_SECONDS), racks, leaving)
        moves, result = plan.moves, None
        if execute and moves:
            await Move(admin, throttle).run(moves)
            staying = {node: rack for node, rack in racks.items() if node not in leaving}
            result = Balance(await _held(admin, SAMPLE_SECONDS), staying)
    _show(output, plan, result, moves, done=execute)


async def _cordon(admin: Admin, leaving: Iterable[int], coming: Iterable[int]) -> None:
    for node in coming:
        await admin.alter_configs(ConfigResource.broker(node), delete=[CORDONED])
    for node in leaving:
        try:
            await admin.alter_configs(ConfigResource.broker(node), set={CORDONED: "*"})
        except UnsupportedVersion:
            note(f"node {node} cannot be cordoned: topics created meanwhile may be placed there")


async def _held(admin: Admin, sample_seconds: float = 0.0) -> list[Held]:
    """Every partition, its size and how fast that grows."""
    topics = await admin.describe_topics([topic.name for topic in await admin.list_topics(internal=True)])
    before, began = await _sizes(admin), time.monotonic()
    if sample_seconds:
        await asyncio.sleep(sample_seconds)
    sizes = await _sizes(admin) if sample_seconds else before
    seconds = max(time.monotonic() - began, 0.001)
    found = []
    for name, topic in topics.items():
        for row in topic.partitions:
            tp = TopicPartition(name, row.index)
            size = sizes.get(tp, 0)
            grown = max(size - before.get(tp, size), 0) / seconds if sample_seconds else 0.0
            found.append(Held(tp, tuple(row.replicas), size, grown))
    return found


async def _sizes(admin: Admin) -> dict[TopicPartition, int]:
    """The size of each partition: that of its largest replica."""
    sizes: dict[TopicPartition, int] = {}
    for (_, tp), size in (await _replica_sizes(admin)).items():
        sizes[tp] = max(sizes.get(tp, 0), size)
    return sizes


async def _replica_sizes(
    admin: Admin, partitions: Collection[TopicPartition] | None = None
) -> dict[tuple[int, TopicPartition], int]:
    """The size of each replica by broker, of all partitions or of some."""
    return {
        (node, tp): replica.size_bytes
        for node, dirs in (await admin.describe_log_dirs(partitions)).items()
        for log_dir in dirs
        for tp, replica in log_dir.replicas.items()
        if not replica.is_future
    }


class Move:
    """Carries a plan out, a few partitions at a time, throttled, and tells how far it has come."""

    def __init__(self, admin: Admin, throttle: int) -> None:
        self._admin = admin
        self._throttle = throttle
        self._began = time.monotonic()
        self._told = 0.0

    async def run(self, moves: Moves) -> None:
        """Move everything, and make the preferred replicas leaders; what limits it goes, however it ends."""
        sizes = await _sizes(self._admin)
        todo = sorted(moves, key=lambda tp: sizes.get(tp, 0))
        total, done = sum(sizes.get(tp, 0) for tp in todo) or 1, 0
        try:
            for first in range(0, len(todo), AT_A_TIME):
                part = {tp: moves[tp] for tp in todo[first : first + AT_A_TIME]}
                await self._limit(part)
                await self._admin.reassign({tp: after for tp, (_, after) in part.items()})
                while left := part.keys() & (await self._admin.reassignments()).keys():
                    if time.monotonic() - self._told >= TELL_SECONDS:
                        ahead = done + sum(sizes.get(tp, 0) for tp in part.keys() - left)
                        ahead += await self._copied({tp: part[tp] for tp in left})
                        self._tell(first + len(part) - len(left), len(todo), min(ahead, total), total)
                    await asyncio.sleep(LOOK_SECONDS)
                done += sum(sizes.get(tp, 0) for tp in part)
            await self._admin.elect_leaders(list(moves))
        finally:
            await self._unlimit(moves)
        note(f"moved {len(todo)} of {len(todo)} partitions in {time.monotonic() - self._began:.0f} s")

    async def _copied(self, moves: Moves) -> int:
        """How much of what is on its way has come: of each partition as much as its new replicas have on average."""
        there = await _replica_sizes(self._admin, moves)
        new = {tp: set(after) - set(before) for tp, (before, after) in moves.items()}
        return sum(sum(there.get((node, tp), 0) for node in nodes) // len(nodes) for tp, nodes in new.items() if nodes)

    def _tell(self, partitions: int, all_of_them: int, done: int, total: int) -> None:
        self._told = now = time.monotonic()
        seconds = (now - self._began) * (total - done) / done if done else None
        left = "" if seconds is None else f", about {seconds:.0f} s left"
        note(f"moved {partitions} of {all_of_them} partitions, {done} of {total} bytes{left}")

    async def _limit(self, moves: Moves) -> None:
        """Throttle only what is moved: the partitions' leaders and the replicas that are added (KIP-73)."""
        if not self._throttle:
            return
        brokers: set[int] = set()
        for topic in {tp.topic for tp in moves}:
            own = {tp: row for tp, row in moves.items() if tp.topic == topic}
            leaders = [f"{tp.partition}:{one}" for tp, (before, _) in own.items() for one in before]
            added = {tp: set(after) - set(before) for tp, (before, after) in own.items()}
            followers = [f"{tp.partition}:{one}" for tp, new in added.items() for one in sorted(new)]
            lists = {LEADERS: ",".join(leaders), FOLLOWERS: ",".join(followers)}
            set_ = {key: text for key, text in lists.items() if text}
            await self._admin.alter_configs(ConfigResource.topic(topic), set=set_)
            brokers.update(one for before, after in own.values() for one in (*before, *after))
        for broker in brokers:
            rates = dict.fromkeys(RATES, str(self._throttle))
            await self._admin.alter_configs(ConfigResource.broker(broker), set=rates)

    async def _unlimit(self, moves: Moves) -> None:
        if not self._throttle:
            return
        for topic in {tp.topic for tp in moves}:
            await self._admin.alter_configs(ConfigResource.topic(topic), delete=[LEADERS, FOLLOWERS])
        for broker in {one for before, after in moves.values() for one in (*before, *after)}:
            await self._admin.alter_configs(ConfigResource.broker(broker), delete=RATES)


def _show(output: Output, plan: Balance, result: Balance | None, moves: Moves, *, done: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"topic": tp.topic, "partition": tp.partition, "from": list(before), "to": list(after)}
        for tp, (before, after) in sorted(moves.items())
    ]
    if output is Output.JSON:
        after = None if result is None else round(result.unevenness, 4)
        print_json(
            {"moves": rows, "unevenness": round(plan.unevenness, 4), "unevenness_after": after, "executed": done}
        )
        return
    if not rows:
        write_line("nothing is to be moved")
        return
    print_rows(output, ["topic", "partition", "from", "to"], rows)
    told = "moved" if done else "would be moved; --execute moves them"
    found = plan if result is None else result
    write_line(f"{len(rows)} partitions {told}; brokers are within {found.unevenness:.0%} of the average")

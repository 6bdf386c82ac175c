"""A member of a group as a process of its own: `member.py CLIENT JSON`. It reads, commits, and tells what it does.

Each line of its output is a JSON object: `{"has": [...]}` whenever its partitions change, `{"read": [[partition,
first, last], ...]}` for what it has read, `{"committed": {...}}` when a commit was acknowledged, `{"gives_back":
[...]}` and then `{"gave_back": [...]}` when partitions are taken from it. It leaves its group on SIGTERM, and crashes
on SIGKILL.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import Any

COMMIT_EVERY_S = 0.2

stopping = False


def stop(*_: object) -> None:
    """Leave at the next occasion."""
    global stopping
    stopping = True


def tell(**what: Any) -> None:
    """Tell whoever started this process."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Progress:
    """What was read and not committed yet."""

    def __init__(self) -> None:
        self.positions: dict[int, int] = {}
        self.asked: dict[int, int] = {}
        self.committed_at = time.monotonic()

    def read(self, offsets: Iterable[tuple[int, int]]) -> None:
        """Note and tell records by partition and offset."""
        runs: dict[int, list[int]] = {}
        for partition, offset in offsets:
            run = runs.setdefault(partition, [offset, offset])
            run[1] = offset
            self.positions[partition] = offset + 1
        if runs:
            tell(read=[[partition, *run] for partition, run in runs.items()])

    def due(self) -> bool:
        """Whether it is time to commit."""
        return bool(self.positions) and time.monotonic() - self.committed_at > COMMIT_EVERY_S

    def taken(self, partitions: Iterable[int] | None = None) -> dict[int, int]:
        """What is to be committed now, of some partitions or all; it is forgotten here."""
        self.committed_at = time.monotonic()
        chosen = (
            self.positions
            if partitions is None
            else {each: self.positions[each] for each in partitions if each in self.positions}
        )
        self.positions = {each: at for each, at in self.positions.items() if each not in chosen}
        self.asked.update(chosen)
        return chosen

    def restore(self, offsets: dict[int, int], has: Iterable[int]) -> None:
        """A commit has failed: what is still ours, and was not committed since, is to be committed later."""
        ours = {each: at for each, at in offsets.items() if each in has and self.asked.get(each) == at}
        self.positions = {**ours, **self.positions}

    def forget(self, partitions: Iterable[int]) -> None:
        """Partitions are somebody else's."""
        for each in partitions:
            self.positions.pop(each, None)
            self.asked.pop(each, None)


def run_confluent(options: dict[str, Any]) -> None:
    """confluent-kafka, classic or consumer protocol."""
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    topic = options["topic"]
    progress = Progress()
    has: set[int] = set()
    # Who has joined again, but still reads, would wait in a commit for the answer to its JoinGroup.
    aside = options["configs"].get("partition.assignment.strategy") == "cooperative-sticky"
    under_way: list[dict[int, int]] = []

    def commit(offsets: dict[int, int], *, aside: bool = False) -> None:
        if offsets:
            chosen = [TopicPartition(topic, each, at) for each, at in offsets.items()]
            try:
                consumer.commit(offsets=chosen, asynchronous=aside)
            except KafkaException as error:
                noted(error, chosen)
            else:
                if aside:
                    under_way.append(offsets)
                else:
                    tell(committed=offsets)

    def noted(error: object, partitions: list[Any]) -> None:
        under_way.clear()
        offsets = {each.partition: each.offset for each in partitions}
        if error is None:
            tell(committed=offsets)
        else:
            progress.restore(offsets, has)
            tell(commit_failed=str(error))

    def assigned(_: object, partitions: list[Any]) -> None:
        has.update(each.partition for each in partitions)
        tell(has=sorted(has))

    def revoked(_: object, partitions: list[Any]) -> None:
        gone = [each.partition for each in partitions]
        has.difference_update(gone)
        tell(gives_back=sorted(gone))
        time.sleep(options["slow_s"])
        commit(progress.taken(gone))
        progress.forget(gone)
        tell(gave_back=sorted(gone))
        tell(has=sorted(has))

    def lost(_: object, partitions: list[Any]) -> None:
        gone = [each.partition for each in partitions]
        progress.forget(gone)
        has.difference_update(gone)
        tell(has=sorted(has), lost=sorted(gone))

    consumer = Consumer(
        {
            "bootstrap.servers": options["bootstrap"],
            "group.id": options["group"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "on_commit": noted,
            "topic.metadata.refresh.interval.ms": 1000,
            **options.get("configs", {}),
        }
    )
    consumer.subscribe([options.get("pattern") or topic], on_assign=assigned, on_revoke=revoked, on_lost=lost)
    while not stopping:
        messages = consumer.consume(500, 0.1)
        for message in messages:
            if message.error() is not None and message.error().code() != KafkaError._PARTITION_EOF:
                tell(error=str(message.error()))
        progress.read((one.partition(), one.offset()) for one in messages if one.error() is None)
        if progress.due() and not under_way:  # one at a time: this client may repeat commits after later ones
            commit(progress.taken(), aside=aside)
    commit(progress.taken())
    consumer.close()


def run_kafka_python(options: dict[str, Any]) -> None:
    """kafka-python, classic protocol."""
    from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
    from kafka.errors import KafkaError

    topic = options["topic"]
    progress = Progress()

    def commit(offsets: dict[int, int]) -> None:
        if offsets:
            try:
                consumer.commit(
                    {TopicPartition(topic, each): OffsetAndMetadata(at, "", -1) for each, at in offsets.items()}
                )
                tell(committed=offsets)
            except KafkaError as error:
                progress.restore(offsets, {each.partition for each in consumer.assignment()})
                tell(commit_failed=repr(error))

    anew: list[bool] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            # This client cannot commit here: what was not committed is read again, by whoever has it next.
            tell(gave_back=sorted(each.partition for each in revoked))

        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            anew.append(True)
            tell(has=sorted(each.partition for each in consumer.assignment()))

    def rewind() -> None:
        """Go to what is committed: this client goes on where it was, even if others had the partition meanwhile."""
        has = consumer.assignment()
        try:
            for each in has:
                consumer.seek(each, consumer.committed(each) or 0)
            anew.clear()
        except KafkaError as error:
            tell(error=repr(error))
        progress.forget({*progress.positions, *progress.asked})

    consumer = KafkaConsumer(
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **options.get("configs", {}),
    )
    consumer.subscribe([topic], listener=Listener())
    while not stopping:
        found = consumer.poll(timeout_ms=100)
        if anew:
            rewind()
            continue
        progress.read((one.partition, one.offset) for records in found.values() for one in records)
        if progress.due():
            commit(progress.taken())
    if not anew:
        commit(progress.taken())
    consumer.close()


def run_aiokafka(options: dict[str, Any]) -> None:
    """aiokafka, classic protocol."""
    import asyncio

    asyncio.run(_run_aiokafka(options))


async def _run_aiokafka(options: dict[str, Any]) -> None:
    import asyncio

    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
    from aiokafka.errors import KafkaError

    topic = options["topic"]
    progress = Progress()

    async def commit(offsets: dict[int, int]) -> None:
        if offsets:
            try:
                await consumer.commit({TopicPartition(topic, each): at for each, at in offsets.items()})
                tell(committed=offsets)
            except KafkaError as error:
                progress.restore(offsets, {each.partition for each in consumer.assignment()})
                tell(commit_failed=repr(error))

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            gone = [each.partition for each in revoked]
            await commit(progress.taken(gone))
            tell(gave_back=sorted(gone))

        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            tell(has=sorted(each.partition for each in assigned))

    consumer = AIOKafkaConsumer(
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **options.get("configs", {}),
    )
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    while not stopping:
        found = await consumer.getmany(timeout_ms=100)
        progress.read((one.partition, one.offset) for records in found.values() for one in records)
        if progress.due():
            await commit(progress.taken())
        await asyncio.sleep(0)
    await commit(progress.taken())
    await consumer.stop()


def run_kavka(options: dict[str, Any]) -> None:
    """Kavka's own client, consumer or classic protocol."""
    import asyncio

    asyncio.run(_run_kavka(options))


async def _run_kavka(options: dict[str, Any]) -> None:
    import asyncio

    from kavka.client import GroupConsumer, KafkaError

    progress = Progress()
    has: set[int] = set()

    async def commit() -> None:
        try:
            await consumer.commit()
            tell(committed=progress.taken())
        except KafkaError as error:
            tell(commit_failed=repr(error))

    def assigned(partitions: frozenset[Any]) -> None:
        has.update(each.partition for each in partitions)
        tell(has=sorted(has))

    async def revoked(partitions: frozenset[Any]) -> None:
        gone = [each.partition for each in partitions]
        tell(gives_back=sorted(gone))
        await asyncio.sleep(options["slow_s"])
        await commit()
        has.difference_update(gone)
        tell(gave_back=sorted(gone))
        tell(has=sorted(has))

    def lost(partitions: frozenset[Any]) -> None:
        gone = [each.partition for each in partitions]
        has.difference_update(gone)
        tell(has=sorted(has), lost=sorted(gone))

    consumer = GroupConsumer(
        options["bootstrap"],
        group=options["group"],
        topics=[options["topic"]],
        start="start",
        auto_commit_ms=None,
        on_assigned=assigned,
        on_revoked=revoked,
        on_lost=lost,
        **options.get("configs", {}),
    )
    async with consumer:
        while not stopping:
            records = await consumer.read(timeout_ms=100)
            progress.read((one.partition, one.offset) for one in records)
            if progress.due():
                await commit()
        await commit()


RUN = {"kavka": run_kavka, "confluent": run_confluent, "aiokafka": run_aiokafka, "kafka_python": run_kafka_python}

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    RUN[sys.argv[1]](json.loads(sys.argv[2]))
    tell(left=True)
    sys.stdout.flush()
    os._exit(0)  # some clients' threads take their time

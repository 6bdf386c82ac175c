"""A process that transacts until it is killed: writes transactions, or carries records from one topic to another.

    python transacting.py write|chain BOOTSTRAP NAME HISTORY SEED

It notes all that it does in a history (`kavka.testing.checker`). Whatever goes wrong, it goes on with a new producer.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from itertools import count

from kavka.client import GroupConsumer, KafkaError, Producer, TopicPartition
from kavka.testing.checker import History

TOPICS = {"a": 2, "b": 1}
SOURCE, SINK, GROUP = "in", "out", "chain"


async def write(bootstrap: str, name: str, history: History, rng: random.Random) -> None:
    """One transaction after the other, over several partitions; some are aborted."""
    numbers = count()
    while True:
        with contextlib.suppress(KafkaError):
            async with Producer(bootstrap, transactional_id=name, linger_ms=0, max_block_ms=60_000) as producer:
                while True:
                    await write_one(producer, f"{name}-{seed_of(rng)}-{next(numbers)}", history, rng)


def seed_of(rng: random.Random) -> str:
    """A part of a name that no other process has."""
    return f"{rng.getrandbits(64):x}"


async def write_one(producer: Producer, transaction: str, history: History, rng: random.Random) -> None:
    producer.begin()
    aborts = rng.random() < 0.3
    try:
        for number in range(rng.randint(1, 8)):
            topic = rng.choice(list(TOPICS))
            partition = rng.randrange(TOPICS[topic])
            value = f"{transaction}/{number}"
            history.send(transaction, f"{topic}-{partition}", value)
            await producer.send(topic, value.encode(), partition=partition)
        if aborts:
            if rng.random() < 0.5:
                await producer.flush()
        else:
            history.commit(transaction)
            await producer.commit()
            history.committed(transaction)
    except KafkaError:
        with contextlib.suppress(KafkaError):
            await producer.abort()  # whether a commit that failed was one, nobody knows now
        raise
    if aborts:
        await producer.abort()
        history.aborted(transaction)


async def chain(bootstrap: str, name: str, history: History, rng: random.Random) -> None:
    """Carry every record of a topic to another one, exactly once: its offset and its copy are one transaction."""
    numbers = count()
    while True:
        with contextlib.suppress(KafkaError):
            async with (
                GroupConsumer(
                    bootstrap,
                    group=GROUP,
                    topics=[SOURCE],
                    start="start",
                    isolation="read_committed",
                    auto_commit_ms=None,
                ) as consumer,
                Producer(bootstrap, transactional_id=name, linger_ms=0, max_block_ms=60_000) as producer,
            ):
                while True:
                    records = await consumer.read(timeout_ms=500, at_most=rng.randint(1, 20))
                    if not records:
                        continue
                    transaction = f"{name}-{seed_of(rng)}-{next(numbers)}"
                    producer.begin()
                    for record in records:
                        source = (record.value or b"").decode()
                        value = f"{transaction}/{source}"
                        history.send(transaction, f"{SINK}-{record.partition}", value, source)
                        await producer.send(SINK, value.encode(), partition=record.partition)
                    offsets = {TopicPartition(read.topic, read.partition): read.offset + 1 for read in records}
                    await producer.send_offsets(offsets, consumer)
                    history.commit(transaction)
                    await producer.commit()
                    history.committed(transaction)


def main() -> None:
    """Transact."""
    mode, bootstrap, name, path, seed = sys.argv[1:]
    work = {"write": write, "chain": chain}[mode]
    asyncio.run(work(bootstrap, name, History(path), random.Random(int(seed))))


if __name__ == "__main__":
    main()

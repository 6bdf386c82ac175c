"""Consume, transform, produce, exactly once: what was read and what was made of it are one transaction.

    python exactly_once.py HOST:PORT source target

Kill it whenever you like and start it again: each record of the source is in the target once, for consumers with
isolation="read_committed".
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys

from kavka.client import GroupConsumer, KafkaError, Producer, TopicPartition


async def run(bootstrap: str, source: str, target: str) -> None:
    """Copy in upper case until cancelled. The transactional id fences an earlier process that is still about."""
    async with (
        GroupConsumer(
            bootstrap, group=f"{target}-maker", topics=[source], start="start", auto_commit_ms=None
        ) as reader,
        Producer(bootstrap, transactional_id=f"{target}-maker-1") as writer,
    ):
        while True:
            records = await reader.read()
            if not records:
                continue
            async with writer.transaction():
                for record in records:
                    await writer.send(target, (record.value or b"").upper(), key=record.key)
                ends = {TopicPartition(each.topic, each.partition): each.offset + 1 for each in records}
                await writer.send_offsets(ends, reader)


async def main(bootstrap: str, source: str, target: str) -> None:
    """Run until SIGTERM or Ctrl-C; after an error of the cluster, begin again from what was committed."""
    task = asyncio.ensure_future(again_and_again(bootstrap, source, target))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def again_and_again(bootstrap: str, source: str, target: str) -> None:
    """A transaction that failed was aborted: new clients read what it had read once more."""
    while True:
        try:
            await run(bootstrap, source, target)
        except KafkaError as error:
            sys.stderr.write(f"{error}: begin again\n")
            await asyncio.sleep(0.5)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))

"""A worker that retries what fails, and puts aside what keeps failing: nothing is lost, and nothing holds up the rest.

python worker.py HOST:PORT jobs
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Awaitable, Callable

from kavka.client import ConsumerRecord, GroupConsumer, Producer

ATTEMPTS = 3
FIRST_PAUSE_SECONDS = 0.1

Work = Callable[[ConsumerRecord], Awaitable[None]]


async def attempt(record: ConsumerRecord, work: Work) -> Exception | None:
    """Try a record a few times, with longer and longer pauses; the last error if it never worked."""
    failure: Exception | None = None
    for number in range(ATTEMPTS):
        try:
            await work(record)
        except Exception as error:
            failure = error
            if number + 1 < ATTEMPTS:
                await asyncio.sleep(FIRST_PAUSE_SECONDS * 2**number)
        else:
            return None
    return failure


async def run(bootstrap: str, topic: str, work: Work) -> None:
    """Work until cancelled. An offset is committed only after its record is done, or in the topic for failures."""
    async with (
        Producer(bootstrap) as producer,
        GroupConsumer(bootstrap, group=f"{topic}-worker", topics=[topic], start="start", auto_commit_ms=None) as jobs,
    ):
        while True:
            for record in await jobs.read():
                failure = await attempt(record, work)
                if failure is not None:
                    headers = [*record.headers, ("error", str(failure).encode())]
                    await producer.send(f"{topic}-failed", record.value, key=record.key, headers=headers)
            await producer.flush()
            await jobs.commit()


async def show(record: ConsumerRecord) -> None:
    """The work of this example: print, and fail where it says so."""
    value = (record.value or b"").decode()
    if value.startswith("fail"):
        raise ValueError(f"cannot do {value!r}")
    sys.stdout.write(f"{value}\n")
    sys.stdout.flush()


async def main(bootstrap: str, topic: str) -> None:
    """Run until SIGTERM or Ctrl-C: the member commits what is done and leaves its group."""
    task = asyncio.ensure_future(run(bootstrap, topic, show))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))

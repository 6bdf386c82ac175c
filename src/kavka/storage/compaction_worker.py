"""A process that compacts one log: `python -m kavka.storage.compaction_worker`, a plan on stdin, the result on stdout.

The plan is one line. When stdin ends before the result is there, the node is gone, and the worker ends at once: the
next node may already be at work in the same directory.
On failure: one line on stderr and exit status 1; `cleaning.give_up`, or the next start, removes what it wrote.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import asdict

from kavka.model.errors import KafkaError
from kavka.storage.compaction import CleanedGroup, CompactionPlan, CompactionResult, SourceSegment, compact
from kavka.storage.disk import RealDisk
from kavka.storage.txn_index import AbortedTransaction

_NICENESS = 10


def encode_plan(plan: CompactionPlan) -> bytes:
    """A plan as the worker reads it."""
    return json.dumps(asdict(plan)).encode()


def decode_plan(data: bytes) -> CompactionPlan:
    """A plan from the bytes of `encode_plan`."""
    fields = json.loads(data)
    fields["segments"] = tuple(SourceSegment(**source) for source in fields["segments"])
    fields["aborted"] = tuple(AbortedTransaction(*txn) for txn in fields["aborted"])
    fields["last_offsets"] = {int(key): (value[0], value[1]) for key, value in fields["last_offsets"].items()}
    return CompactionPlan(**fields)


def encode_result(result: CompactionResult) -> bytes:
    """A result as the worker writes it."""
    return json.dumps(asdict(result)).encode()


def decode_result(data: bytes) -> CompactionResult:
    """A result from the bytes of `encode_result`."""
    fields = json.loads(data)
    fields["groups"] = tuple(
        CleanedGroup(group["base_offset"], group["size"], tuple(group["replaces"])) for group in fields["groups"]
    )
    return CompactionResult(**fields)


class Pace:
    """Has reading and writing take as long as so many bytes a second do."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = max(bytes_per_second, 1.0)
        self._began = time.monotonic()
        self._spent = 0

    def __call__(self, size: int) -> None:
        """Wait until what was spent is no more than the time that has gone by allows."""
        self._spent += size
        ahead = self._spent / self._rate - (time.monotonic() - self._began)
        if ahead > 0:
            time.sleep(ahead)


def _end_with_the_node() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


def main() -> int:
    """Run the plan on stdin."""
    os.nice(_NICENESS)
    plan = sys.stdin.buffer.readline()
    threading.Thread(target=_end_with_the_node, daemon=True).start()
    try:
        todo = decode_plan(plan)
        result = compact(RealDisk(max_open=64), todo, Pace(todo.io_bytes_per_second))
    except (KafkaError, OSError) as error:
        sys.stderr.write(f"compaction failed: {error}\n")
        return 1
    sys.stdout.buffer.write(encode_result(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())

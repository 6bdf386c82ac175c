"""A partition in memory and a machine that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kavka.coordinator.record import Unknown
from kavka.coordinator.share_state.machine import ReadState
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage
from kavka.model.clock import ManualClock
from kavka.model.errors import KafkaError
from kavka.model.settings.values import Values
from kavka.model.share import SharePartitionKey
from kavka.model.transition import Transition
from kavka.model.types import TopicPartition, Uuid
from kavka.records.batch import records, scan
from kavka.replica.fetching import Watcher
from kavka.replica.offset_wait import Done, OffsetWait, high_watermark
from kavka.runtime.shard import Port, Shard, ShardRuntime
from kavka.runtime.timers import Timers


class PlayedPartition:
    """A log in memory; its followers are as quick as `lag` says: with None they never answer."""

    def __init__(self, index: int = 0) -> None:
        self.topic_partition = TopicPartition("__log", index)
        self.batches: list[bytes] = []
        self.watchers: dict[Watcher, None] = {}
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = self.low_watermark = 0
        self.max_batch_bytes = 10_000
        self.sync_due = False
        self.led_since = 0
        self.leader_epoch = 0
        self.leads = True
        self.replicated = True
        self.refuses: KafkaError | None = None

    def append_own(self, batch: bytes, now_ms: int, transaction_version: int = 0) -> int:
        if self.refuses is not None:
            raise self.refuses
        (info,) = scan(batch)
        first = self.log_end_offset
        self.batches.append(first.to_bytes(8, "big") + batch[8:])
        self.log_end_offset += info.count
        if self.replicated:
            self.commit()
        return first

    def read_own(self, offset: int, max_bytes: int) -> bytes:
        found = b""
        for batch in self.batches:
            (info,) = scan(batch, check_crc=False)
            if info.last_offset >= offset and (not found or len(found) + len(batch) <= max_bytes):
                found += batch
        return found

    def when_committed(self, offset: int, done: Done) -> OffsetWait:
        return OffsetWait(self, high_watermark, offset, None, done)

    def commit(self, offset: int | None = None) -> None:
        """The followers have everything, or what is before an offset."""
        self.high_watermark = self.log_end_offset if offset is None else offset
        watchers, self.watchers = self.watchers, {}
        for watcher in watchers:
            watcher.news()

    @property
    def values(self) -> list[str]:
        """The values of all records."""
        return [(record.value or b"").decode() for batch in self.batches for record in records(batch, scan(batch)[0])]


class Script:
    """A machine whose decisions are given with the request; it remembers what was replayed."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, str]] = []
        self.ended: list[tuple[int, bool]] = []
        self.fired: list[tuple[Any, int]] = []
        self.metadata: list[MetadataImage] = []
        self.settings: list[Values] = []
        self.on_loading: Transition[None] = Transition(None)
        self.answers_timer: Callable[[Any], Transition[None]] = lambda key: Transition(None)

    def replay(self, record: str, offset: int, producer_id: int = -1) -> None:
        if record == "poison":
            raise ValueError("a machine with a fault")
        self.seen.append((offset, record))

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.ended.append((producer_id, committed))

    def on_loaded(self, now_ms: int) -> Transition[None]:
        return self.on_loading

    def on_timer(self, key: Any, now_ms: int) -> Transition[None]:
        self.fired.append((key, now_ms))
        return self.answers_timer(key)

    def on_metadata(self, image: MetadataImage, delta: MetadataDelta) -> Transition[None]:
        self.metadata.append(image)
        return Transition(None)

    def on_settings(self, values: Values) -> None:
        self.settings.append(values)

    @property
    def words(self) -> list[str]:
        """What was replayed, without offsets."""
        return [word for _, word in self.seen]


class Words:
    """A log of words."""

    def encode(self, word: str, /) -> tuple[bytes, bytes | None]:
        return b"word", word.encode()

    def decode(self, key: bytes | None, value: bytes | None, /) -> str | Unknown:
        """A word, if it is one."""
        return Unknown("no word") if key != b"word" else (value or b"").decode()


CODEC = Words()


class Forcing:
    """Fsyncs that end when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Done] = []

    def __call__(self, port: Port, done: Done) -> None:
        self.waiting.append(done)


def surroundings(clock: ManualClock, linger_ms: int = -1, force: Forcing | None = None) -> ShardRuntime:
    """What a shard has around it, on the running loop."""
    loop = asyncio.get_running_loop()
    return ShardRuntime(loop, clock, Timers(loop), force or Forcing(), 5_000, linger_ms)


class Played:
    """A loaded shard on a played partition."""

    def __init__(self, clock: ManualClock, linger_ms: int = -1) -> None:
        self.port = PlayedPartition()
        self.machine = Script()
        self.force = Forcing()
        self.failures = 0
        self.shard = Shard(self.port, self.machine, CODEC, surroundings(clock, linger_ms, self.force), self._failed)
        self.shard.loaded()

    def _failed(self, shard: Shard[Script]) -> None:
        self.failures += 1

    async def write(self, *words: str, reply: Any = "ok", effects: tuple[Any, ...] = (), token: Any = None) -> Any:
        """A request that is decided so."""
        return await self.shard.submit(lambda machine, now_ms: Transition(reply, words, effects), token)

    async def read(self) -> list[str]:
        """A request that only looks."""
        return await self.shard.submit(lambda machine, now_ms: Transition(machine.words))


async def turns(number: int = 3) -> None:
    """Let the loop go round."""
    for _ in range(number):
        await asyncio.sleep(0)


KEY = SharePartitionKey("g", Uuid(b"t" * 16), 0)


class Persister:
    """The share coordinators: answer when they are told to."""

    def __init__(self):
        self.state = ReadState(1, 0, ())
        self.reads = 0
        self.failure = None
        self.writes = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def read(self, key, leader_epoch):
        self.reads += 1
        if self.failure is not None:
            raise self.failure
        return self.state

    async def write(self, key, change):
        self.writes.append(change)
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure

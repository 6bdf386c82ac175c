"""A data directory that is damaged, one file at a time, and what a node makes of it."""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from crash.raw import Raw
from kavka.broker.config import load_config
from kavka.broker.main import first_of
from kavka.broker.wiring import Node, ReadyReport
from kavka.metadata.names import CLUSTER_METADATA
from kavka.model.clock import SystemClock
from kavka.model.errors import CorruptMessage, KafkaError, error_for
from kavka.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from kavka.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kavka.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kavka.protocol.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kavka.quorum.format import FormatError
from kavka.records.batch import record_fields, scan
from kavka.storage.disk import RealDisk

TOPICS: Final = ("first", "second")
RECORDS: Final = 6
COMMITTED: Final = 4
LATEST: Final = -1
GROUP_TOPICS: Final = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}
UNTOUCHED: Final = {".lock"}
COORDINATOR_SECONDS: Final = 3.0
OUTSIDE_CRC: Final = frozenset({*range(8), *range(12, 16)})
"""Where a batch has its base offset and its leader epoch."""


class State(NamedTuple):
    """What clients see: the offsets and values of each topic, how far the group is, and what they are refused."""

    records: dict[str, list[tuple[int, bytes]]]
    committed: int
    refused: dict[str, str]
    """By topic or group: why it is not served, or what a client finds in what it is given."""


ALL_RECORDS: Final = [(number, b"%d" % number) for number in range(RECORDS)]
WHOLE: Final = State(dict.fromkeys(TOPICS, ALL_RECORDS), COMMITTED, {})


def run_node(directory: Path, ask: Callable[[Raw], Any], *, accept_loss: bool = False) -> Any:
    """Start a node, ask it something, and stop it; raises why it does not start."""
    overrides = [f"{key}={value}" for key, value in GROUP_TOPICS.items()]
    config = load_config(data_dir=str(directory), listen="127.0.0.1:0", overrides=overrides)
    config = config if not accept_loss else type(config)(**{**fields(config), "accept_loss": True})

    async def live() -> Any:
        ready: asyncio.Queue[ReadyReport] = asyncio.Queue()
        stopping = asyncio.Event()
        answer: Any = None
        with ThreadPoolExecutor(1) as thread:
            async with asyncio.TaskGroup() as tasks:
                node = tasks.create_task(Node(config, RealDisk(), SystemClock()).run(ready.put_nowait, stopping))
                report = tasks.create_task(ready.get())
                await asyncio.wait([node, report], return_when=asyncio.FIRST_COMPLETED)
                if not report.done():
                    report.cancel()
                    return answer
                bootstrap = report.result().bootstrap
                assert bootstrap is not None
                try:
                    answer = await asyncio.get_running_loop().run_in_executor(thread, asked, bootstrap, ask)
                finally:
                    stopping.set()
        return answer

    return asyncio.run(live())


def fields(config: Any) -> dict[str, Any]:
    return {name: getattr(config, name) for name in config.__dataclass_fields__}


def asked(bootstrap: str, ask: Callable[[Raw], Any]) -> Any:
    raw = Raw(bootstrap)
    try:
        return ask(raw)
    finally:
        raw.close()


def fill(raw: Raw, start: int, stop: int) -> None:
    """Write some of the records, and commit how far the group is."""
    if start == 0:
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
            for name in TOPICS
        ]
        raw.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
    for topic in TOPICS:
        for number in range(start, stop):
            assert raw.produce(topic, b"%d" % number) == (0, number)
    place = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=min(stop, COMMITTED), committed_metadata=""
    )
    request = OffsetCommitRequest(
        group_id="g", member_id="", topics=[OffsetCommitRequestTopic(name=TOPICS[0], partitions=[place])]
    )
    while True:
        (row,) = raw.call(request, 8).topics[0].partitions
        if row.error_code == 0:
            return
        find(raw)


def find(raw: Raw) -> None:
    """Have the group's coordinator come into being."""
    from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest

    raw.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)


def look(raw: Raw) -> State:
    """What there is."""
    records: dict[str, list[tuple[int, bytes]]] = {}
    refused: dict[str, str] = {}
    for topic in TOPICS:
        records[topic] = []
        try:
            records[topic] += consumed(raw, topic)
        except KafkaError as error:
            refused[topic] = repr(error)
    find(raw)
    group = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name=TOPICS[0], partition_indexes=[0])]
    )
    deadline = time.monotonic() + COORDINATOR_SECONDS
    while True:
        (row,) = raw.call(OffsetFetchRequest(groups=[group], require_stable=False), 8).groups
        if row.error_code == 0:
            return State(records, row.topics[0].partitions[0].committed_offset, refused)
        if time.monotonic() > deadline:
            refused["g"] = repr(error_for(row.error_code))
            return State(records, -1, refused)
        time.sleep(0.01)


def consumed(raw: Raw, topic: str) -> Iterator[tuple[int, bytes]]:
    """All offsets and values of a topic; raises KafkaError where it is not served, or a client cannot read it."""
    wanted = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=LATEST)])
    (end,) = raw.call(ListOffsetsRequest(replica_id=-1, topics=[wanted]), 7).topics[0].partitions
    if end.error_code:
        raise error_for(end.error_code)
    offset = 0
    while offset < end.offset:
        code, data = raw.fetch(topic, offset)
        if code:
            raise error_for(code)
        found = [record for record in read(data) if record[0] >= offset]
        if not found:
            raise CorruptMessage(f"nothing is read at offset {offset}, and {topic} ends at {end.offset}")
        yield from found
        offset = found[-1][0] + 1


def read(data: bytes) -> Iterator[tuple[int, bytes]]:
    for batch in scan(data):
        for offset, _, _, value, _ in record_fields(data, batch):
            yield offset, bytes(value or b"")


def prepare(root: Path) -> tuple[Path, Path]:
    """A data directory after a clean stop, and a copy of it from before its last records."""
    whole, older = root / "whole", root / "older"
    run_node(whole, lambda raw: fill(raw, 0, RECORDS // 2))
    shutil.copytree(whole, older)
    run_node(whole, lambda raw: fill(raw, RECORDS // 2, RECORDS))
    return whole, older


class Damage(NamedTuple):
    """A file, and what is done to it."""

    file: str
    kind: str

    def do(self, directory: Path, older: Path, rng: random.Random) -> bool:
        """Damage the file; False if there is nothing to damage, or nobody could tell."""
        path = directory / self.file
        data = path.read_bytes()
        match self.kind:
            case "cut":
                new = data[: len(data) // 2]
            case "emptied":
                new = b""
            case "zeroed":
                new = bytes(len(data))
            case "flipped":
                if not data:
                    return False
                place = rng.randrange(len(data))
                if self.file.endswith(".log") and CLUSTER_METADATA not in self.file and outside_crc(data, place):
                    return False
                new = data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]
            case "older":
                if not (older / self.file).exists():
                    return False
                new = (older / self.file).read_bytes()
            case _:
                path.unlink()
                return True
        if new == data:
            return False
        path.write_bytes(new)
        return True


def outside_crc(data: bytes, place: int) -> bool:
    """Whether a byte of a log belongs to an offset or an epoch, which no checksum of Kafka's format covers."""
    for batch in scan(data):
        if batch.position <= place < batch.position + batch.size:
            return place - batch.position in OUTSIDE_CRC
    return False


KINDS: Final = ("cut", "emptied", "zeroed", "flipped", "older", "missing")


def files_of(directory: Path) -> list[str]:
    """All files of a data directory that say something."""
    found = (path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())
    return sorted(name for name in found if name not in UNTOUCHED)


class Outcome(NamedTuple):
    """What became of a damaged directory."""

    refused: str | None
    said: str
    state: State | None


def start(directory: Path, *, accept_loss: bool = False) -> Outcome:
    """Start a node on a directory: what it refuses with, or what it serves and what it said."""
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("kavka")
    logger.addHandler(handler)
    state, refused = None, None
    try:
        state = run_node(directory, look, accept_loss=accept_loss)
    except* (FormatError, KafkaError, OSError) as errors:
        refused = str(first_of(errors))
    finally:
        logger.removeHandler(handler)
    return Outcome(refused, "; ".join(said), state)

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
from kavka.model.clock import SystemClock
from kavka.model.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    CorruptMessage,
    KafkaError,
    NotCoordinator,
    error_for,
)
from kavka.model.types import Uuid
from kavka.protocol.schemas import initialize_share_group_state as initializing
from kavka.protocol.schemas import read_share_group_state as reading
from kavka.protocol.schemas import write_share_group_state as writing
from kavka.protocol.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kavka.protocol.schemas.describe_transactions import DescribeTransactionsRequest
from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest
from kavka.protocol.schemas.init_producer_id import InitProducerIdRequest
from kavka.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
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
SEGMENT_BYTES: Final = {"first": "1048576", "second": "150"}
"""The second topic has more than one segment."""
RECORDS: Final = 6
COMMITTED: Final = 4
LATEST: Final = -1
SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
SNAPSHOT_BYTES: Final = "metadata.log.max.record.bytes.between.snapshots"
DISKS: Final = ("disk", "other")
UNTOUCHED: Final = (".lock", ".deleted")
COORDINATOR_SECONDS: Final = 3.0
GROUP, TRANSACTIONAL_ID = "g", "t"
SHARING: Final = "shared"
"""The share group, and what its state is refused under."""
KEY_TYPES: Final = {GROUP: 0, TRANSACTIONAL_ID: 1, SHARING: 2}
LOADING: Final = {CoordinatorLoadInProgress.code, CoordinatorNotAvailable.code, NotCoordinator.code}


class State(NamedTuple):
    """What clients see; -1 is a place that nobody knows."""

    records: dict[str, list[tuple[int, bytes]]]
    """The offsets and values of each topic."""
    committed: int
    """How far the group is."""
    epoch: int
    """Of the producer of the transactional id."""
    shared: int
    """Where the share group is."""
    refused: dict[str, str]
    """By topic or group: why it is not served, or what a client finds in what it is given."""


ALL_RECORDS: Final = [(number, b"%d" % number) for number in range(RECORDS)]
WHOLE: Final = State(dict.fromkeys(TOPICS, ALL_RECORDS), COMMITTED, 1, RECORDS, {})


def run_node(
    directory: Path, ask: Callable[[Raw], Any], *, accept_loss: bool = False, snapshot_bytes: int = 1 << 20
) -> Any:
    """Start a node, ask it something, and stop it; raises why it does not start."""
    disks = ",".join(str(directory / name) for name in DISKS)
    overrides = [
        f"{key}={value}" for key, value in {**SETTINGS, SNAPSHOT_BYTES: snapshot_bytes, "log.dirs": disks}.items()
    ]
    config = load_config(listen="127.0.0.1:0", overrides=overrides)
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
    """Write some of the records, say how far the groups are, and begin the transactional id anew."""
    if start == 0:
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=1,
                replication_factor=1,
                assignments=[],
                configs=[CreatableTopicConfig(name="internal.segment.bytes", value=SEGMENT_BYTES[name])],
            )
            for name in TOPICS
        ]
        raw.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
    for topic in TOPICS:
        for number in range(start, stop):
            assert raw.produce(topic, b"%d" % number) == (0, number)
    place = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=min(stop, COMMITTED), committed_metadata=""
    )
    read = OffsetCommitRequestTopic(name=TOPICS[0], partitions=[place])
    commit = OffsetCommitRequest(group_id=GROUP, member_id="", topics=[read])
    answered(raw, GROUP, lambda: raw.call(commit, 8).topics[0].partitions[0])
    begin = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=10_000)
    answered(raw, TRANSACTIONAL_ID, lambda: raw.call(begin, 4))
    topic_id = id_of_first(raw)
    if start == 0:
        first = initializing.PartitionData(partition=0, state_epoch=1, start_offset=0)
        begun = initializing.InitializeStateData(topic_id=topic_id, partitions=[first])
        request = initializing.InitializeShareGroupStateRequest(group_id=SHARING, topics=[begun])
        answered(raw, SHARING, lambda: raw.call(request, 0).results[0].partitions[0])
    now = writing.PartitionData(partition=0, state_epoch=1, leader_epoch=0, start_offset=stop, state_batches=[])
    written = writing.WriteStateData(topic_id=topic_id, partitions=[now])
    answered(
        raw,
        SHARING,
        lambda: (
            raw.call(writing.WriteShareGroupStateRequest(group_id=SHARING, topics=[written]), 0)
            .results[0]
            .partitions[0]
        ),
    )


def id_of_first(raw: Raw) -> Uuid:
    """The id of the topic that the share group reads."""
    answer = raw.call(MetadataRequest(topics=[MetadataRequestTopic(name=TOPICS[0])]), 12)
    found: Uuid = answer.topics[0].topic_id
    return found


def answered(raw: Raw, key: str, ask: Callable[[], Any]) -> Any:
    """Ask a coordinator until it has loaded what it remembers; raises KafkaError."""
    deadline = time.monotonic() + COORDINATOR_SECONDS
    while True:
        wanted = key if key != SHARING else f"{SHARING}:{id_of_first(raw)}:0"
        raw.call(FindCoordinatorRequest(key_type=KEY_TYPES[key], coordinator_keys=[wanted]), 6)
        row = ask()
        if row.error_code == 0:
            return row
        if row.error_code not in LOADING or time.monotonic() > deadline:
            raise error_for(row.error_code)
        time.sleep(0.01)


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
    places = dict.fromkeys(KEY_TYPES, -1)
    for key, ask in ((GROUP, committed), (TRANSACTIONAL_ID, epoch), (SHARING, shared)):
        try:
            places[key] = ask(raw)
        except KafkaError as error:
            refused[key] = repr(error)
    return State(records, places[GROUP], places[TRANSACTIONAL_ID], places[SHARING], refused)


def committed(raw: Raw) -> int:
    """How far the group is; raises KafkaError."""
    topics = [OffsetFetchRequestTopics(name=TOPICS[0], partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)], require_stable=False)
    row = answered(raw, GROUP, lambda: raw.call(request, 8).groups[0])
    place: int = row.topics[0].partitions[0].committed_offset
    return place


def epoch(raw: Raw) -> int:
    """The epoch of the producer of the transactional id; raises KafkaError."""
    request = DescribeTransactionsRequest(transactional_ids=[TRANSACTIONAL_ID])
    found: int = answered(raw, TRANSACTIONAL_ID, lambda: raw.call(request, 0).transaction_states[0]).producer_epoch
    return found


def shared(raw: Raw) -> int:
    """Where the share group is; raises KafkaError."""
    place = reading.PartitionData(partition=0, leader_epoch=0)
    asked = reading.ReadStateData(topic_id=id_of_first(raw), partitions=[place])
    request = reading.ReadShareGroupStateRequest(group_id=SHARING, topics=[asked])
    found: int = answered(raw, SHARING, lambda: raw.call(request, 0).results[0].partitions[0]).start_offset
    return found


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
    run_node(whole, lambda raw: fill(raw, 0, RECORDS // 2), snapshot_bytes=1000)
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


KINDS: Final = ("cut", "emptied", "zeroed", "flipped", "older", "missing")


def files_of(directory: Path) -> list[str]:
    """All files of a data directory that say something."""
    found = (path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())
    return sorted(name for name in found if not name.endswith(UNTOUCHED))


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

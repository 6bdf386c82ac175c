"""The replicas of one node on a real directory, following a real controller; and a disk that fails when told to."""

from __future__ import annotations

import errno
import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from kavka.controller.bootstrap import bootstrap_records
from kavka.controller.brokers import BrokerRequest, Heartbeat
from kavka.controller.configs import Op
from kavka.controller.machine import Controller
from kavka.controller.topics import NewTopic
from kavka.metadata.features import SUPPORTED
from kavka.metadata.image.configs import ConfigResource, ResourceType
from kavka.metadata.live import LiveSettings
from kavka.model.clock import ManualClock
from kavka.model.settings import broker_values
from kavka.model.types import Endpoint, Uuid
from kavka.records.builder import BatchBuilder
from kavka.replica.dirs import LogDir
from kavka.replica.manager import ReplicaManager
from kavka.replica.partition import Partition
from kavka.storage.disk import Buffer, RealDisk, RealFile
from kavka.storage.log import AppendInfo

CLUSTER = "XtzFyRoARCCFvqzNMVkX_Q"
DIRECTORY = Uuid(b"d" * 16)
SPREAD = 0x9E3779B97F4A7C15F39CC0605CEDC835
"""Makes ids of numbers that differ as much as those that are drawn."""


class FaultyFile(RealFile):
    """A file of a disk that fails when told to."""

    __slots__ = ()

    _disk: FaultyDisk

    def write_at(self, position: int, buffers: Sequence[Buffer], length: int) -> None:
        self._disk.meet("write", self.path)
        super().write_at(position, buffers, length)

    def read_at(self, position: int, length: int) -> bytes:
        self._disk.meet("read", self.path)
        return super().read_at(position, length)

    def sync(self) -> None:
        self._disk.meet("sync", self.path)
        super().sync()


class FaultyDisk(RealDisk):
    """Fails each kind of call that stands in `faults`, for paths that contain the text there."""

    __slots__ = ("before", "faults")

    def __init__(self) -> None:
        super().__init__(max_open=64)
        self.faults: dict[str, str] = {}
        self.before: Callable[[str, str], None] = lambda kind, path: None

    def meet(self, kind: str, path: str) -> None:
        self.before(kind, path)
        if kind in self.faults and self.faults[kind] in path:
            raise OSError(errno.EIO, "injected", path)

    def file(self, path: str) -> FaultyFile:
        return FaultyFile(self, path)

    def create(self, path: str) -> FaultyFile:
        self.meet("create", path)
        super().create(path).close()
        return FaultyFile(self, path)

    def listdir(self, path: str) -> list[str]:
        self.meet("list", path)
        return super().listdir(path)

    def rename(self, source: str, target: str) -> None:
        self.meet("rename", source)
        super().rename(source, target)

    def replace_file(self, path: str, data: bytes) -> None:
        self.meet("replace", path)
        super().replace_file(path, data)

    def remove_tree(self, path: str) -> None:
        self.meet("remove", path)
        super().remove_tree(path)

    def total_bytes(self, path: str) -> int:
        self.meet("measure", path)
        return super().total_bytes(path)


class Held:
    """What a node holds, and short ways to change and use it."""

    def __init__(self, root: Path, disk: FaultyDisk, clock: ManualClock, *more: Uuid) -> None:
        """`more` are the ids of further log directories, which lie beside the first."""
        self.root = root
        self.directories = {str(root): DIRECTORY, **{f"{root}-{number}": id_ for number, id_ in enumerate(more, 2)}}
        for path in self.directories:
            disk.mkdir(path)
        self.disk = disk
        self.clock = clock
        numbers = itertools.count(1)
        self.values = broker_values({"node.id": "1"})
        self.machine = Controller(
            1,
            CLUSTER,
            self.values,
            draw=random.Random(7).randint,
            new_id=lambda: Uuid((next(numbers) * SPREAD % (1 << 128)).to_bytes(16, "big")),
        )
        self.settings = LiveSettings(1, self.values)
        self.names = (f"{number:032x}" for number in itertools.count(1))
        self.replicas = self.start()
        self.write(self.machine.activate(bootstrap_records(), 0))
        endpoint = Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT")
        request = BrokerRequest(1, CLUSTER, Uuid(b"l" * 16), (endpoint,), SUPPORTED, tuple(self.directories.values()))
        epoch = self.write(self.machine.register_broker(request, 0))
        self.write(self.machine.heartbeat(Heartbeat(1, epoch, epoch), 0))

    def start(self, *, clean: bool = True) -> ReplicaManager:
        """Replicas that have loaded nothing yet, as after a restart."""
        dirs = [
            LogDir(self.disk, path, id_, clean=clean, has_metadata=id_ == DIRECTORY)
            for path, id_ in self.directories.items()
        ]
        self.replicas = ReplicaManager(1, self.disk, dirs, self.settings, self.clock, lambda: next(self.names))
        return self.replicas

    def write(self, transition):
        """Commit what the controller decided and let the replicas follow."""
        if transition.records:
            offset = self.machine.image.offset + len(transition.records)
            delta = self.machine.replay(transition.records, offset, 1)
            self.settings.apply(self.machine.image, delta)
            for _ in self.replicas.apply(self.machine.image, delta):
                pass
        return transition.reply

    def topic(self, name: str = "orders", partitions: int = 1, **configs: object) -> Partition:
        """A new topic; its first partition."""
        texts = {key.replace("_", "."): str(value) for key, value in configs.items()}
        self.write(self.machine.create_topics([NewTopic(name, partitions, configs=texts)]))
        return self.replicas.find(name, 0)

    def delete(self, name: str = "orders") -> None:
        self.write(self.machine.delete_topics([self.machine.image.topics.by_name[name].id]))

    def configure(self, kind: ResourceType, name: str, **configs: object) -> None:
        changes = {key.replace("_", "."): (Op.SET, str(value)) for key, value in configs.items()}
        outcome = self.write(self.machine.incremental_alter_configs({ConfigResource(kind, name): changes}))
        assert set(outcome.values()) == {None}, outcome

    def produce(self, partition: Partition, *values: bytes, key: bytes | None = b"k", acks: int = 1) -> AppendInfo:
        builder = BatchBuilder()
        for value in values or (b"v",):
            builder.append(key, value, self.clock.now_ms())
        return partition.append(memoryview(builder.build()), acks, self.clock.now_ms(), 13)

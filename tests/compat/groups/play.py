"""A group of member processes under load: who has what, what was read, how far it was committed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from scale import rounds

MEMBER = str(Path(__file__).with_name("member.py"))
SETTLE_S = 60.0
PASSING = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
)

SESSION_MS = rounds(full=3000, ci=1500)
HEARTBEAT_MS = rounds(full=300, ci=150)
QUICK = {
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
}
"""Settings of a node on which rebalances take as little time as they can."""


class Member:
    """One member process, and what it has told."""

    def __init__(self, name: str, client: str, options: Mapping[str, Any]) -> None:
        self.name = name
        self._client, self._options = client, options
        self.has: list[int] = []
        self.joined = False
        self.read: list[tuple[float, int, int, int]] = []
        self.gives_back: list[float] = []
        self.gave_back: list[tuple[float, list[int]]] = []
        self.acknowledged: dict[int, int] = {}
        self.words: list[str] = []
        self.ended = False
        configs = {
            key: value.format(name=name) if isinstance(value, str) else value
            for key, value in options["configs"].items()
        }
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", MEMBER, client, json.dumps({**options, "configs": configs})],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                told = json.loads(line)
            except ValueError:
                self.words.append(line.rstrip())
                continue
            now = time.monotonic()
            if "has" in told:
                self.has, self.joined = told["has"], True
            if "gives_back" in told:
                self.gives_back.append(now)
            if "gave_back" in told:
                self.gave_back.append((now, told["gave_back"]))
            for partition, first, last in told.get("read", ()):
                self.read.append((now, partition, first, last))
            for partition, offset in told.get("committed", {}).items():
                self.acknowledged[int(partition)] = max(offset, self.acknowledged.get(int(partition), 0))
            for key in ("error", "commit_failed", "lost"):
                if key in told:
                    self.words.append(f"{key}: {told[key]}")

    def again(self) -> Member:
        """A new process with the same name and options."""
        return Member(self.name, self._client, self._options)

    def kill(self) -> None:
        """Crash: the group hears nothing of it."""
        self._process.kill()
        self._end()

    def leave(self) -> None:
        """Ask it to leave; `gone` waits for it."""
        self._process.terminate()

    def gone(self) -> None:
        """Wait until it has left."""
        self._process.wait(30)
        self._end()

    def _end(self) -> None:
        self._process.wait(30)
        self._listener.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self.ended = True
        self.has = []

    @property
    def alive(self) -> bool:
        """Whether it is still running."""
        return self._process.poll() is None


class Load:
    """Writes numbered records all the time."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, per_second: int = 400) -> None:
        self.sent = [0] * partitions
        self._stop = threading.Event()
        self._per_second = per_second
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True})
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.02):
            for _ in range(max(1, self._per_second // 50)):
                partition = number % len(self.sent)
                self._producer.produce(self._topic, str(number), partition=partition, on_delivery=self._delivered)
                number += 1
            self._producer.poll(0)

    def _delivered(self, error: object, message: Any) -> None:
        if error is None:
            self.sent[message.partition()] = max(self.sent[message.partition()], message.offset() + 1)

    def end(self) -> list[int]:
        """Stop; the end offset of each partition."""
        self._stop.set()
        self._thread.join(10)
        assert self._producer.flush(60) == 0
        return self.sent


class Play:
    """A topic under load, a group, its members."""

    def __init__(
        self, bootstrap: str, partitions: int, client: str = "", configs: Mapping[str, Any] | None = None
    ) -> None:
        self.topic = f"topic-{os.urandom(4).hex()}"
        self.group = f"group-{os.urandom(4).hex()}"
        self.partitions = partitions
        self.members: list[Member] = []
        self.left: list[Member] = []
        self._bootstrap = bootstrap
        self._client = client
        self._configs = dict(configs or {})
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(self.topic, partitions, 1)])[self.topic].result(30)
        self.load = Load(bootstrap, self.topic, partitions)
        self._watch = Consumer({"bootstrap.servers": bootstrap, "group.id": self.group, "enable.auto.commit": False})
        self.committed: dict[int, int] = {}

    def start(self, count: int = 1, client: str | None = None, slow_s: float = 0.0, **configs: Any) -> list[Member]:
        """Start members; slow ones take their time to give something back."""
        options = {"bootstrap": self._bootstrap, "group": self.group, "topic": self.topic, "slow_s": slow_s}
        first = len(self.members) + len(self.left)
        options["configs"] = {**self._configs, **configs}
        new = [Member(f"m{first + number}", client or self._client, options) for number in range(count)]
        self.members += new
        return new

    def restart(self, member: Member) -> None:
        """One of the members goes and comes back; only by its instance id, if it has one, is it the same."""
        self.remove(member)
        self.members.append(member.again())

    def remove(self, member: Member, *, crash: bool = False) -> None:
        """One of the members goes."""
        if crash:
            member.kill()
        else:
            member.leave()
            member.gone()
        self.members.remove(member)
        self.left.append(member)

    def settle(self, within_s: float = SETTLE_S, each: int = 1) -> None:
        """Wait until each partition has one owner, and everybody who can have so many has as many."""
        self._until(lambda: self._is_settled(each), within_s)
        self.check_committed()

    def _is_settled(self, each: int) -> bool:
        has = [list(one.has) for one in self.members]
        busy = min(len(has), self.partitions)
        owned = sorted(partition for some in has for partition in some)
        return owned == list(range(self.partitions)) and sum(len(some) >= each for some in has) >= busy

    def _until(self, reached: Callable[[], bool], within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while not reached():
            assert all(one.alive for one in self.members), self.story()
            assert time.monotonic() < deadline, self.story()
            self.check_committed()
            time.sleep(0.05)

    def check_committed(self) -> None:
        """No committed offset has gone back."""
        for found in self._fetch_committed():
            before = self.committed.get(found.partition, -1001)
            went = f"partition {found.partition} went from {before} to {found.offset}"
            assert found.offset >= before, f"{went}\n{self.story()}"
            self.committed[found.partition] = found.offset

    def check_acknowledged(self) -> None:
        """What a member was told to be committed is."""
        told = [(one.name, dict(one.acknowledged)) for one in [*self.members, *self.left]]  # they go on committing
        self.check_committed()
        for name, acknowledged in told:
            for partition, offset in acknowledged.items():
                found = self.committed[partition]
                assert found >= offset, f"{name} committed {offset} of partition {partition}, which is at {found}"

    def _fetch_committed(self) -> list[TopicPartition]:
        asked = [TopicPartition(self.topic, each) for each in range(self.partitions)]
        deadline = time.monotonic() + SETTLE_S
        while True:
            try:
                found: list[TopicPartition] = self._watch.committed(asked, timeout=10)
                return found
            except KafkaException as error:  # just after a restart the coordinator may have to be found again
                if not (error.args[0].retriable() or error.args[0].code() in PASSING) or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def finish(self) -> None:
        """End the load; every record was read by somebody, and all is committed in the end."""
        ends = self.load.end()
        self._until(lambda: self._read_all(ends), SETTLE_S)
        self._until(lambda: [self.committed.get(each) for each in range(self.partitions)] == ends, SETTLE_S)
        assert sum(ends) > 0
        assert self._unread(ends) == [], self.story()

    def _read_all(self, ends: list[int]) -> bool:
        last = [0] * self.partitions
        for one in [*self.members, *self.left]:
            for _, partition, _, offset in list(one.read):
                last[partition] = max(last[partition], offset + 1)
        return last == ends

    def _unread(self, ends: list[int]) -> list[tuple[int, int]]:
        """Offsets that nobody has read."""
        seen: list[set[int]] = [set() for _ in range(self.partitions)]
        for one in [*self.members, *self.left]:
            for _, partition, first, last in one.read:
                seen[partition].update(range(first, last + 1))
        return [(each, offset) for each, end in enumerate(ends) for offset in range(end) if offset not in seen[each]]

    def close(self) -> None:
        """End everything."""
        self.load.end()
        for member in self.members:
            member.leave()
        for member in self.members:
            member.gone()
        self._watch.close()

    def story(self) -> str:
        """What the members say, for a failing test."""
        return f"{self._client} {self._configs}\n" + "\n".join(
            f"{one.name}: alive={one.alive} has={one.has} words={one.words[-5:]}" for one in [*self.members, *self.left]
        )


def together(act: Callable[[Play], None], plays: Sequence[Play]) -> None:
    """Let several groups go through the same at the same time."""
    with ThreadPoolExecutor(len(plays)) as threads:
        for done in [threads.submit(act, play) for play in plays]:
            done.result()

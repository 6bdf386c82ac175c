"""What is written in a round, by librdkafka, and the journal of it: where each record is, and what became of it."""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import confluent_kafka
import fastavro

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
PATIENCE_S: Final = 120
MALFORMED: Final = (
    b"",
    b"no object",
    b'{"id": 1',
    b'{"id": "one"}',
    b'{"name": "nobody"}',
    b'{"id": 1.5}',
    b"\x00\xff",
)
AVRO: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "amount", "type": ["null", "double"], "default": None},
    ],
}
EXTRA: Final = {"name": "extra", "type": ["null", "string"], "default": None}


@dataclass(frozen=True, slots=True)
class Written:
    """A record that the brokers have."""

    topic: str
    partition: int
    offset: int
    key: str
    value: bytes | None
    document: str | None
    """What the value means, as JSON; None for a tombstone."""
    malformed: bool
    committed: bool


@dataclass(frozen=True, slots=True)
class Draft:
    """A record that is to be written."""

    key: str
    value: bytes | None
    document: str | None
    malformed: bool = False


@dataclass
class Event:
    """Makes values of the topic of events: JSON, or Avro with a schema's number in front."""

    draw: random.Random
    schema_id: int | None = None
    """That of the latest schema; None: JSON."""
    extra: bool = False
    number: int = 0

    def draft(self) -> Draft:
        """One value; now and then one that is none."""
        draw = self.draw
        self.number += 1
        document: dict[str, Any] = {
            "id": self.number,
            "name": draw.choice((None, "ž" * draw.randrange(4), f'name "{self.number}"', "x" * draw.randrange(200))),
            "amount": draw.choice((None, 0.1, -1e300, draw.random() * 1000)),
        }
        if self.extra:
            document["extra"] = draw.choice((None, f"extra {self.number}"))
        text = json.dumps(document, ensure_ascii=draw.random() < 0.5)
        key = f"key-{self.number}"
        if draw.random() < 0.03:
            wrong = draw.choice(MALFORMED) if self.schema_id is None else draw.choice((b"", b"\x00\xff", b"\x00" * 5))
            return Draft(key, wrong, wrong.decode("latin-1"), malformed=True)
        return Draft(key, text.encode() if self.schema_id is None else self._avro(document), text)

    def _avro(self, document: dict[str, Any]) -> bytes:
        out = io.BytesIO(struct.pack(">bI", 0, self.schema_id))
        out.seek(5)
        fastavro.schemaless_writer(out, avro_schema(self.extra), document)
        return out.getvalue()


def avro_schema(extra: bool) -> dict[str, Any]:
    """The schema of events, before or after its change; the change puts the new field first."""
    return {**AVRO, "fields": [EXTRA, *AVRO["fields"]]} if extra else AVRO


@dataclass
class Price:
    """Makes values of the compacted topic: few keys, and tombstones."""

    draw: random.Random
    number: int = 0

    def draft(self) -> Draft:
        """One value."""
        self.number += 1
        key = f"sku-{self.draw.randrange(25)}"
        if self.draw.random() < 0.15:
            return Draft(key, None, None)
        document = json.dumps({"price": self.number + 0.25, "number": self.number})
        return Draft(key, document.encode(), document)


@dataclass
class Journal:
    """Writes records, and knows what was written."""

    bootstrap: str
    draw: random.Random
    written: list[Written] = field(default_factory=list)
    _open: list[Callable[[], None]] = field(default_factory=list)
    _names: int = 0

    def write(self, topic: str, partitions: int, draft: Callable[[], Draft], count: int) -> None:
        """Write so many records, some in transactions, by producers of several kinds."""
        self.finish()
        while count > 0:
            some = min(count, self.draw.randrange(20, 150))
            count -= some
            drafts = [draft() for _ in range(some)]
            if self.draw.random() < 0.5:
                self._plainly(topic, partitions, drafts)
            else:
                self._in_transaction(topic, partitions, drafts)

    def finish(self) -> None:
        """End the transactions that were left open."""
        for end in self._open:
            end()
        self._open.clear()

    def _producer(self, **more: Any) -> Any:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "compression.type": self.draw.choice(CODECS),
            "enable.idempotence": True,
            "linger.ms": self.draw.choice((0, 5, 50)),
            "batch.num.messages": self.draw.choice((1, 10, 1000)),
            "delivery.timeout.ms": PATIENCE_S * 1000,
            "log_level": 0,
        }
        return confluent_kafka.Producer({**settings, **more})

    def _send(self, producer: Any, topic: str, partitions: int, drafts: list[Draft]) -> list[Any]:
        """Send, and wait for all; what the brokers say of each."""
        told: list[Any] = [None] * len(drafts)

        def delivered(index: int) -> Callable[[Any, Any], None]:
            def tell(error: Any, message: Any) -> None:
                told[index] = error or message

            return tell

        for index, each in enumerate(drafts):
            # A key stays in one partition; Python's hash of text is another one in each process.
            partition = sum(each.key.encode()) % partitions
            producer.produce(topic, each.value, each.key.encode(), partition, on_delivery=delivered(index))
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0, "records that are not acknowledged"
        return told

    def _note(self, topic: str, drafts: list[Draft], told: list[Any], *, committed: bool) -> None:
        for each, message in zip(drafts, told, strict=True):
            assert not isinstance(message, confluent_kafka.KafkaError), f"not written: {message}"
            place = (topic, message.partition(), message.offset())
            self.written.append(Written(*place, each.key, each.value, each.document, each.malformed, committed))

    def _plainly(self, topic: str, partitions: int, drafts: list[Draft]) -> None:
        self._note(topic, drafts, self._send(self._producer(), topic, partitions, drafts), committed=True)

    def _in_transaction(self, topic: str, partitions: int, drafts: list[Draft]) -> None:
        self._names += 1
        producer = self._producer(**{"transactional.id": f"writer-{self._names}", "transaction.timeout.ms": 600_000})
        _again(producer.init_transactions)
        producer.begin_transaction()
        told = self._send(producer, topic, partitions, drafts)
        commits = self.draw.random() < 0.6

        def end() -> None:
            _again(producer.commit_transaction if commits else producer.abort_transaction)
            self._note(topic, drafts, told, committed=commits)

        if self.draw.random() < 0.25:
            self._open.append(end)  # until more is written, readers of committed records wait here
        else:
            end()


def _again(call: Callable[[float], None]) -> None:
    """Call until it succeeds: a node that was killed comes back."""
    for attempt in range(10):
        try:
            call(PATIENCE_S)
        except confluent_kafka.KafkaException as error:
            if attempt == 9 or not error.args[0].retriable():
                raise
        else:
            return


def read(bootstrap: str, topic: str, *, committed: bool = True, missing_ok: bool = False) -> list[Any]:
    """All messages of a topic, by librdkafka; none of one that may be missing and is."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "log_level": 0,
        }
    )
    try:
        topics = consumer.list_topics(timeout=PATIENCE_S).topics
        if missing_ok and topic not in topics:
            return []
        known = topics[topic].partitions
        consumer.assign(
            [confluent_kafka.TopicPartition(topic, each, confluent_kafka.OFFSET_BEGINNING) for each in known]
        )
        found: list[Any] = []
        ended: set[int | None] = set()
        while len(ended) < len(known):
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"{topic} has no end"
            error = message.error()
            if error is None:
                found.append(message)
            else:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
        return found
    finally:
        consumer.close()

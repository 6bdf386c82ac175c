"""What a query may say to the data source: the option names of Spark's Kafka source and sink, and a few of our own.

Rule: an option that is misspelt or cannot be honoured is an error here, on the driver, before any task runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kavka.client.security import SecuredBootstrap, security_of
from kavka.model.settings import SettingError
from kavka.model.types import TopicPartition
from kavka.spark.offsets import EARLIEST, LATEST, BadOffsetsError

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS: Final = "headers"
ERROR: Final = "error"
"""Why a value could not be decoded; a query that asks for it is given those rows too, without their value."""

Place = int | Mapping[TopicPartition, int]

_BOTH: Final = ("kafka.bootstrap.servers",)
_SOURCE: Final = (
    *_BOTH,
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "columns",
    "value.format",
    "value.schema",
    "value.message",
    "value.framing",
    "value.schema.id",
    "deadLetterTopic",
    "fetchBytes",
    "timeoutMs",
)
_SINK: Final = (*_BOTH, "topic", "includeHeaders", "useTimestampColumn", "compression", "delivery", "timeoutMs")
AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"
# Spark's Kafka connector knows these; they tune what our client does not have.
_IGNORED: Final = frozenset(
    each.lower()
    for each in (
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "groupIdPrefix",
        "path",
        "checkpointLocation",
        "queryName",
        "sparkConfPrefix",
    )
)


_WITHDRAWN: Final = {
    # Spark 4.3 keeps what one query's filters left for all queries of a DataFrame.
    "filterpushdown": "filterPushdown is gone: with it, Spark gives wrong rows from a DataFrame that is used twice. "
    "To read less, use startingOffsets, endingOffsets, startingTimestamp, endingTimestamp and assign",
}


class OptionError(ValueError):
    """An option is missing, misspelt or has a value that means nothing."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """A read, fully described."""

    bootstrap: str
    subscribe: tuple[str, ...]
    assign: tuple[TopicPartition, ...]
    pattern: str | None
    starting: Place
    starting_time: Place | None
    starting_or_latest: bool
    ending: Place
    ending_time: Place | None
    max_offsets: int | None
    min_offsets: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records: int | None
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    value_format: str | None
    value_schema: str | None
    value_message: str | None
    value_schema_id: int | None
    """What stands before each value where values are framed; None: they are not."""
    dead_letter_topic: str | None
    read_committed: bool
    fetch_bytes: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """A write, fully described."""

    bootstrap: str
    topic: str | None
    include_headers: bool
    use_timestamp: bool
    compression: str
    exactly_once: bool
    timeout_ms: int


class _Given:
    """The options of one query, whatever the case of their names."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._values = {name.lower(): str(value) for name, value in options.items()}
        names = {name.lower(): name for name in known}
        for name in self._values:
            if name in _WITHDRAWN:
                raise OptionError(_WITHDRAWN[name])
            if name not in names and name not in _IGNORED and not name.startswith("kafka."):
                raise OptionError(f"there is no option {name!r}; the options are {', '.join(sorted(known))}")

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def number(self, name: str, default: int | None = None) -> int | None:
        text = self.text(name)
        if text is None:
            return default
        try:
            number = int(text)
        except ValueError:
            raise OptionError(f"{name} is a number, not {text!r}") from None
        if number <= 0:
            raise OptionError(f"{name} is at least 1, not {number}")
        return number

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise OptionError(f"{name} is true or false, not {text!r}")
        return text.lower() == "true"

    def choice(self, name: str, default: str, *choices: str) -> str:
        text = (self.text(name) or default).lower()
        if text not in choices:
            raise OptionError(f"{name} is one of {', '.join(choices)}, not {text!r}")
        return text

    def bootstrap(self) -> str:
        text = self.text("kafka.bootstrap.servers")
        if not text:
            raise OptionError('say where the brokers are: option("kafka.bootstrap.servers", "HOST:PORT")')
        security = {
            name.removeprefix("kafka."): value
            for name, value in self._values.items()
            if name.startswith(("kafka.security.", "kafka.sasl.", "kafka.ssl."))
        }
        if not security:
            return text
        try:
            security_of(security)  # what cannot be honoured is an error here, before any task runs
        except SettingError as error:
            raise OptionError(f"kafka.{error}") from None
        return SecuredBootstrap(text, security)


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Read the options of a source."""
    given = _Given(options, _SOURCE)
    subscribe, assign, pattern = _subscription(given)
    starting = _place(given, "startingOffsets", EARLIEST if not streaming else LATEST)
    ending = _place(given, "endingOffsets", LATEST)
    if streaming and (given.text("endingOffsets") or given.text("endingTimestamp")):
        raise OptionError("a stream has no end: endingOffsets and endingTimestamp are for batch reads")
    if not streaming and starting == LATEST:
        raise OptionError("startingOffsets cannot be latest in a batch read: there would be nothing to read")
    if ending == EARLIEST:
        raise OptionError("endingOffsets cannot be earliest: there would be nothing to read")
    value_format = given.choice("value.format", "bytes", "bytes", "text", "json", "avro", "protobuf")
    columns = _columns(given, decoded=value_format != "bytes")
    return SourceOptions(
        bootstrap=given.bootstrap(),
        subscribe=subscribe,
        assign=assign,
        pattern=pattern,
        starting=starting,
        starting_time=_time(given, "startingTimestamp", "startingOffsetsByTimestamp"),
        starting_or_latest=given.choice("startingOffsetsByTimestampStrategy", "error", "error", "latest") == "latest",
        ending=ending,
        ending_time=_time(given, "endingTimestamp", "endingOffsetsByTimestamp"),
        max_offsets=given.number("maxOffsetsPerTrigger"),
        min_offsets=given.number("minOffsetsPerTrigger"),
        max_trigger_delay_ms=_duration(given.text("maxTriggerDelay") or "15m"),
        min_partitions=given.number("minPartitions"),
        max_records=given.number("maxRecordsPerPartition"),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        columns=columns,
        value_format=None if value_format == "bytes" else value_format,
        value_schema=given.text("value.schema"),
        value_message=given.text("value.message"),
        value_schema_id=_framing(given, value_format),
        dead_letter_topic=given.text("deadLetterTopic"),
        read_committed=given.choice("kafka.isolation.level", "read_uncommitted", "read_committed", "read_uncommitted")
        == "read_committed",
        fetch_bytes=given.number("fetchBytes", 8 << 20) or 0,
        timeout_ms=given.number("timeoutMs", 60_000) or 0,
    )


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Read the options of a sink."""
    given = _Given(options, _SINK)
    compression = given.text("compression") or given.text("kafka.compression.type") or "none"
    if compression not in ("none", "gzip", "snappy", "lz4", "zstd"):
        raise OptionError(f"kafka.compression.type is none, gzip, snappy, lz4 or zstd, not {compression!r}")
    return SinkOptions(
        bootstrap=given.bootstrap(),
        topic=given.text("topic"),
        include_headers=given.flag("includeHeaders", True),
        use_timestamp=given.flag("useTimestampColumn", False),
        compression=compression,
        exactly_once=given.choice("delivery", AT_LEAST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE) == EXACTLY_ONCE,
        timeout_ms=given.number("timeoutMs", 120_000) or 0,
    )


def _subscription(given: _Given) -> tuple[tuple[str, ...], tuple[TopicPartition, ...], str | None]:
    chosen = [name for name in ("assign", "subscribe", "subscribePattern") if given.text(name) is not None]
    if len(chosen) != 1:
        said = f"both {' and '.join(chosen)}" if chosen else "no topic"
        raise OptionError(f"{said} given: exactly one of assign, subscribe and subscribePattern says what to read")
    text = given.text(chosen[0]) or ""
    if chosen[0] == "subscribe":
        topics = tuple(part.strip() for part in text.split(",") if part.strip())
        if not topics:
            raise OptionError("subscribe names no topic")
        return topics, (), None
    if chosen[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise OptionError(f"subscribePattern {text!r} is not a pattern: {error}") from None
        return (), (), text
    document = _json(text, "assign")
    try:
        return (), tuple(TopicPartition(t, int(p)) for t, partitions in document.items() for p in partitions), None
    except (TypeError, ValueError):
        raise OptionError(f'assign is like {{"topic": [0, 1]}}, not {text!r}') from None


def _place(given: _Given, name: str, default: int) -> Place:
    text = given.text(name)
    if text is None:
        return default
    if text.strip().lower() in ("earliest", "latest"):
        return EARLIEST if text.strip().lower() == "earliest" else LATEST
    return _by_partition(text, name)


def _time(given: _Given, name: str, by_partition: str) -> Place | None:
    text = given.text(name)
    if text is not None:
        try:
            return int(text)
        except ValueError:
            raise OptionError(f"{name} is in milliseconds since 1970, not {text!r}") from None
    text = given.text(by_partition)
    return None if text is None else _by_partition(text, by_partition)


def _by_partition(text: str, name: str) -> dict[TopicPartition, int]:
    document = _json(text, name)
    try:
        return {
            TopicPartition(topic, int(partition)): int(value)
            for topic, partitions in document.items()
            for partition, value in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise BadOffsetsError(f'{name} is like {{"topic": {{"0": 23, "1": -2}}}}, not {text!r}') from None


def _json(text: str, name: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise OptionError(f"{name} is a JSON object, not {text!r}")
    return document


def _columns(given: _Given, *, decoded: bool) -> tuple[str, ...]:
    all_columns = (*COLUMNS, HEADERS, ERROR)
    text = given.text("columns")
    if text is None:
        return (*COLUMNS, HEADERS) if given.flag("includeHeaders", False) else COLUMNS
    exact = {name.lower(): name for name in all_columns}
    chosen = []
    for part in (part.strip() for part in text.split(",")):
        if part.lower() not in exact:
            raise OptionError(f"columns names {part!r}; the columns are {', '.join(all_columns)}")
        chosen.append(exact[part.lower()])
    if len(set(chosen)) != len(chosen):
        raise OptionError("columns names a column twice")
    if ERROR in chosen and not (decoded and "value" in chosen):
        raise OptionError("column error says why a value could not be decoded: it needs column value and value.format")
    return tuple(chosen)


def _framing(given: _Given, form: str) -> int | None:
    framed = given.choice("value.framing", "none", "none", "confluent") == "confluent"
    text = given.text("value.schema.id")
    if not framed:
        if text is not None:
            raise OptionError("value.schema.id is for framed values: set value.framing to confluent")
        return None
    if form not in ("json", "avro", "protobuf"):
        raise OptionError(f"value.framing confluent is for value.format json, avro and protobuf, not {form}")
    if text is None or not text.isdecimal() or int(text) >= 1 << 32:
        raise OptionError(
            "value.framing confluent needs option value.schema.id: the number that the registry gave to value.schema. "
            "Values with another number were written with another schema, and are bad records"
        )
    return int(text)


_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _duration(text: str) -> int:
    match = re.fullmatch(r"\s*(\d+)\s*(ms|s|min|m|h|d)?\s*", text)
    if match is None:
        raise OptionError(f"maxTriggerDelay is like 30s or 15m, not {text!r}")
    return int(match[1]) * _UNITS[match[2] or "ms"]

"""What a query may say to the data source: the option names of Spark's Kafka source and sink, and a few of our own.

Rule: an option that is misspelt or cannot be honoured is an error here, on the driver, before any task runs.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from kavka.model.types import TopicPartition
from kavka.spark.connecting import BOOTSTRAP, KAFKA, OptionError, bootstrap_of, check_names
from kavka.spark.offsets import EARLIEST, LATEST, BadOffsetsError
from kavka.spark.registry.access import NAMES as _REGISTRY
from kavka.spark.registry.access import URL, Access, access_of
from kavka.spark.tiers import RemoteStorage, credential_in

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS: Final = "headers"
ERROR: Final = "error"
"""Why a value could not be decoded; a query that asks for it is given those rows too, without their value."""

Place = int | Mapping[TopicPartition, int]

_BOTH: Final = (BOOTSTRAP, "kafka.client.id")
STORE_OPTIONS: Final = "kavka.remote.storage.options"
_REMOTE: Final = (
    "kavka.remote.storage.url",
    STORE_OPTIONS,
    "kavka.remote.storage.keys.file",
)
"""The nodes' own names."""
_SOURCE: Final = (
    *_BOTH,
    "kafka.isolation.level",
    "kafka.max.partition.fetch.bytes",
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
    "value.schema.version",
    "value.subject",
    "deadLetterTopic",
    "maxBadRecords",
    "maxBadShare",
    "fetchBytes",
    "timeoutMs",
    *_REMOTE,
    *_REGISTRY,
)
_SINK: Final = (
    "traces.endpoint",
    *_BOTH,
    "kafka.acks",
    "kafka.batch.size",
    "kafka.compression.type",
    "kafka.delivery.timeout.ms",
    "kafka.enable.idempotence",
    "kafka.linger.ms",
    "topic",
    "includeHeaders",
    "useTimestampColumn",
    "compression",
    "delivery",
    "timeoutMs",
    "value.format",
    "value.message",
    "value.schema.register",
    "value.schema.version",
    "value.subject",
    *_REGISTRY,
)
BY_REGISTRY: Final = ("avro", "protobuf", "json-schema")
"""The formats whose schemas registries have."""
AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"
# Spark's Kafka connector knows these; they tune what our client does not have.
_IGNORED: Final = frozenset(
    name.lower()
    for name in (
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


@dataclass(frozen=True, slots=True)
class BadLimit:
    """How many records of one range may be bad, and which share of them; None: any."""

    records: int | None = None
    share: float | None = None

    FEW: ClassVar[int] = 10
    """So many are no share worth stopping for."""

    def exceeded(self, bad: int, rows: int, *, whole: bool) -> bool:
        """Whether so many of so many rows are too many; the share is known when the whole range is read."""
        too_many = self.records is not None and bad > self.records
        return too_many or (whole and self.share is not None and bad > self.FEW and bad > self.share * rows)

    @property
    def given(self) -> bool:
        """Whether there is any."""
        return self.records is not None or self.share is not None


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """A read, fully described."""

    bootstrap: str
    client_id: str
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
    value_subject: str | None
    """The subject that was named, in whose context the ids of schemas count."""
    value_schema_id: int | None
    """What stands before each value where values are framed; None: they are not, or a registry knows."""
    registry: Access | None
    """The registry that has the schemas of values."""
    dead_letter_topic: str | None
    bad_limit: BadLimit
    read_committed: bool
    remote: RemoteStorage | None
    """Where what is tiered is read from; None: from the leaders."""
    fetch_bytes: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """A format by registry, and the schema of a subject that values are written with."""

    form: str
    registry: Access
    subject: str
    version: str
    message: str | None
    register: bool
    """Whether a schema is made of the columns, and registered."""
    schema_id: int = 0
    schema: str = ""
    """Found on the driver, as readers have it."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """A write, fully described."""

    bootstrap: str
    client_id: str
    topic: str | None
    include_headers: bool
    use_timestamp: bool
    compression: str
    exactly_once: bool
    batch_bytes: int
    linger_ms: int
    timeout_ms: int
    written: ValueFormat | None
    """How the column `value`, a struct, becomes bytes; None: it is bytes or text."""
    traces: str | None = None
    """The URL of an OTLP collector, for spans of the rows that come with a trace."""


class _Given:
    """The options of one query, whatever the case of their names."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._values = {name.lower(): str(value) for name, value in options.items()}
        names = {name.lower(): name for name in known}
        for name in self._values:
            if name in _WITHDRAWN:
                raise OptionError(_WITHDRAWN[name])
            if name not in names and name not in _IGNORED and not name.startswith(KAFKA):
                raise OptionError(f"there is no option {name!r}; the options are {', '.join(sorted(known))}")
        check_names(self._values, {name for name in names if name.startswith(KAFKA)})

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def number(self, name: str, default: int | None = None, *, least: int = 1) -> int | None:
        text = self.text(name)
        if text is None:
            return default
        try:
            number = int(text)
        except ValueError:
            raise OptionError(f"{name} is a number, not {text!r}") from None
        if number < least:
            raise OptionError(f"{name} is at least {least}, not {number}")
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

    def beginning(self, prefix: str) -> dict[str, str]:
        return {name: value for name, value in self._values.items() if name.startswith(prefix)}

    def bootstrap(self) -> str:
        return bootstrap_of(self._values)


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
    value_format = given.choice("value.format", "bytes", "bytes", "text", "json", *BY_REGISTRY)
    registry = _registry(given, value_format)
    columns = _columns(given, decoded=value_format != "bytes")
    return SourceOptions(
        bootstrap=given.bootstrap(),
        client_id=given.text("kafka.client.id") or "kavka-spark",
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
        value_subject=given.text("value.subject"),
        value_schema_id=_framing(given, value_format, registry),
        registry=registry,
        dead_letter_topic=given.text("deadLetterTopic"),
        bad_limit=BadLimit(given.number("maxBadRecords", least=0), _share(given)),
        read_committed=given.choice("kafka.isolation.level", "read_uncommitted", "read_committed", "read_uncommitted")
        == "read_committed",
        remote=_remote(given),
        fetch_bytes=given.number("fetchBytes", given.number("kafka.max.partition.fetch.bytes", 8 << 20)) or 0,
        timeout_ms=given.number("timeoutMs", 60_000) or 0,
    )


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Read the options of a sink."""
    given = _Given(options, _SINK)
    compression = given.text("compression") or given.text("kafka.compression.type") or "none"
    if compression not in ("none", "gzip", "snappy", "lz4", "zstd"):
        raise OptionError(f"kafka.compression.type is none, gzip, snappy, lz4 or zstd, not {compression!r}")
    # A task's producer waits for all replicas and is idempotent: who asks for less would get more than that.
    given.choice("kafka.acks", "all", "all", "-1")
    given.choice("kafka.enable.idempotence", "true", "true")
    return SinkOptions(
        bootstrap=given.bootstrap(),
        client_id=given.text("kafka.client.id") or "kavka-spark-sink",
        topic=given.text("topic"),
        include_headers=given.flag("includeHeaders", True),
        use_timestamp=given.flag("useTimestampColumn", False),
        compression=compression,
        exactly_once=given.choice("delivery", AT_LEAST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE) == EXACTLY_ONCE,
        batch_bytes=given.number("kafka.batch.size", 128 << 10) or 0,
        linger_ms=given.number("kafka.linger.ms", 20, least=0) or 0,
        timeout_ms=given.number("timeoutMs", given.number("kafka.delivery.timeout.ms", 120_000)) or 0,
        written=_written(given),
        traces=_collector(given),
    )


def _collector(given: _Given) -> str | None:
    url = given.text("traces.endpoint")
    if url is None:
        return None
    if not url.startswith(("http://", "https://")):
        raise OptionError(f"traces.endpoint is the URL of a collector, such as http://HOST:4318, not {url!r}")
    if importlib.util.find_spec("opentelemetry") is None:
        raise OptionError("traces.endpoint needs pip install 'kavka[otel]'")
    return url


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


def _registry(given: _Given, form: str) -> Access | None:
    access = access_of(given.beginning("schema.registry."))
    if access is None:
        for name in ("value.subject", "value.schema.version"):
            if given.text(name) is not None:
                raise OptionError(f"{name} is about the schema of a registry: set {URL}")
        if form == "json-schema":
            raise OptionError(f"value.format json-schema needs option {URL}; without a registry it is json")
        return None
    if form not in BY_REGISTRY:
        raise OptionError(f"{URL} is for value.format {', '.join(BY_REGISTRY)}, not {form}")
    _version(given)
    return access


def _version(given: _Given) -> str:
    version = (given.text("value.schema.version") or "latest").lower()
    if version != "latest" and not (version.isdecimal() and 0 < int(version) < 1 << 31):
        raise OptionError(f"value.schema.version is latest or a number, not {version!r}")
    return version


def reader_subject(options: Mapping[str, str]) -> tuple[str, str]:
    """The subject whose schema a source's columns come from, and its version."""
    given = _Given(options, _SOURCE)
    topics, assign, _ = _subscription(given)
    names = {*topics, *(tp.topic for tp in assign)}
    subject = given.text("value.subject") or (f"{names.pop()}-value" if len(names) == 1 else None)
    if subject is None:
        raise OptionError("several topics are read: value.subject says whose schema the columns come from")
    return subject, _version(given)


def _written(given: _Given) -> ValueFormat | None:
    form = given.choice("value.format", "bytes", "bytes", *BY_REGISTRY)
    access = access_of(given.beginning("schema.registry."))
    if form == "bytes":
        if access is not None:
            raise OptionError(f"{URL} is for value.format {', '.join(BY_REGISTRY)}")
        return None
    if access is None:
        raise OptionError(f"value.format {form} of a sink needs option {URL}")
    topic = given.text("topic")
    subject = given.text("value.subject") or (f"{topic}-value" if topic else None)
    if subject is None:
        raise OptionError("the column topic says where to write: value.subject says with whose schema")
    register = given.flag("value.schema.register", False)
    return ValueFormat(form, access, subject, _version(given), given.text("value.message"), register)


def _framing(given: _Given, form: str, registry: Access | None) -> int | None:
    framed = given.choice("value.framing", "none", "none", "confluent") == "confluent"
    text = given.text("value.schema.id")
    if registry is not None:
        if text is not None:
            raise OptionError("value.schema.id is for queries without a registry: value.schema.version pins a version")
        return None
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


def _remote(given: _Given) -> RemoteStorage | None:
    url, options, keys = map(given.text, _REMOTE)
    if url is None:
        if options is not None or keys is not None:
            raise OptionError(f"{_REMOTE[1]} and {_REMOTE[2]} are about the store of {_REMOTE[0]}, which is not named")
        return None
    pairs = [part.strip().partition("=") for part in (options or "").split(",") if part.strip()]
    if "://" not in url or not all(equals for _, equals, _ in pairs):
        raise OptionError(f"{_REMOTE[0]} is like s3://bucket/prefix, and {_REMOTE[1]} like region=eu-west-1,...")
    if credential := credential_in(options or ""):
        raise OptionError(
            f"{_REMOTE[1]}: {credential} is a credential, and options travel in plans: give executors credentials of "
            "their own, in their environment or by their role"
        )
    return RemoteStorage(url, {name: value for name, _, value in pairs}, keys)


def _share(given: _Given) -> float | None:
    text = given.text("maxBadShare")
    if text is None:
        return None
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise OptionError(f"maxBadShare is a number from 0 to 1, not {text!r}")
    return share


_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _duration(text: str) -> int:
    match = re.fullmatch(r"\s*(\d+)\s*(ms|s|min|m|h|d)?\s*", text)
    if match is None:
        raise OptionError(f"maxTriggerDelay is like 30s or 15m, not {text!r}")
    return int(match[1]) * _UNITS[match[2] or "ms"]

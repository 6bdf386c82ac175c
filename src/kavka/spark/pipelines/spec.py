"""What a pipeline is: the YAML file, read into values and checked, with the place of a mistake in every message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kavka.client.providers import REFERENCE
from kavka.client.security import SecuredBootstrap
from kavka.model.pipelines import STATUS_TOPIC
from kavka.spark.connecting import KAFKA, OptionError, bare_secret, is_security, with_providers
from kavka.spark.lake.table import FORMATS, TableSpec
from kavka.spark.lake.upsert import OFFSET, Upsert
from kavka.spark.options import BY_REGISTRY, STORE_OPTIONS
from kavka.spark.registry.access import PREFIX, SECRETS, access_of
from kavka.spark.tiers import credential_in, has_login

FILE: Final = "pipeline.yaml"
DEBEZIUM: Final = "debezium"
JSON_SCHEMA: Final = "json-schema"
MODES: Final = ("append", "update", "complete")


_OF_CATALOG: Final = re.compile(
    r"secret|password|credential|connection-string|authorization|access-key|account-key|token$"
)
"""What pyiceberg's names for secrets have in them."""


class SpecError(ValueError):
    """The spec says something that means nothing; the message says where."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a flow reads."""

    topic: str | None = None
    pattern: str | None = None
    format: str | None = None
    schema: str | None = None
    message: str | None = None
    envelope: str | None = None
    start: str = "earliest"
    max_per_trigger: int | None = None
    dead_letters: str | None = None
    max_bad_records: int | None = None
    max_bad_share: float | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sink:
    """Where a flow writes: a topic or a table."""

    topic: str | None = None
    table: TableSpec | None = None
    mode: str = "append"
    format: str | None = None
    """Of a topic's values, by the registry; None: JSON, or what the column `value` has."""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Flow:
    """One query: read, transform, write."""

    name: str
    source: Source
    sink: Sink
    transform: str | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A whole project."""

    name: str
    folder: Path
    bootstrap: str
    """Where the cluster is, and how connections to it are secured."""
    flows: tuple[Flow, ...]
    checkpoint: str
    trigger: str = "2 seconds"
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    spark: Mapping[str, str] = field(default_factory=dict)
    ship: tuple[str, ...] = ()
    registry: Mapping[str, str] = field(default_factory=dict)
    """The options by which flows reach a schema registry."""
    status_topic: str | None = STATUS_TOPIC
    """Where consoles are told how flows stand; None: nowhere."""
    lineage: str | None = None
    """The URL of an OpenLineage server, or `environment`: where OpenLineage's own settings say."""

    def flow(self, name: str | None) -> Flow:
        """The flow of a name, or the only one."""
        found = [flow for flow in self.flows if name is None or flow.name == name]
        if len(found) != 1:
            raise SpecError(f"say which flow: {', '.join(flow.name for flow in self.flows)}")
        return found[0]

    def checkpoint_of(self, flow: Flow) -> str:
        """Where a flow's checkpoint is."""
        return f"{self.checkpoint.rstrip('/')}/{flow.name}"


def load(folder: Path, bootstrap: str | None = None) -> Pipeline:
    """Read the spec of a project."""
    import yaml

    path = folder / FILE
    if not path.is_file():
        raise SpecError(f"{folder} has no {FILE}: `kavka pipeline init {folder}` writes one")
    try:
        document = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise SpecError(f"{path}: {error}") from None
    return parse(document, folder.resolve(), bootstrap)


def parse(document: Any, folder: Path, bootstrap: str | None = None) -> Pipeline:
    """Make a pipeline of a YAML document."""
    node = _Node(document, FILE)
    flows = tuple(_flow(_Node(each, f"flows[{index}]"), folder) for index, each in enumerate(node.items("flows")))
    names = [flow.name for flow in flows]
    if not flows:
        raise SpecError("the spec has no flows")
    if len(set(names)) != len(names):
        raise SpecError(f"two flows have the same name: {', '.join(names)}")
    _check_tables(flows)
    named = node.text("bootstrap", "127.0.0.1:9092")
    pipeline = Pipeline(
        name=node.text("name", folder.name),
        folder=folder,
        bootstrap=_secured(bootstrap or named, node),
        flows=flows,
        checkpoint=_located(node.text("checkpoint", ".kavka/checkpoint"), folder),
        trigger=node.text("trigger", "2 seconds"),
        metrics_port=node.number("metrics_port"),
        metrics_host=node.text("metrics_host", "127.0.0.1"),
        spark=node.texts("spark"),
        ship=tuple(map(str, node.items("ship"))),
        registry=_registry(node),
        status_topic=_status_topic(node),
        lineage=_lineage(node),
    )
    node.done()
    _check_formats(pipeline)
    return pipeline


def _secured(bootstrap: str, node: _Node) -> str:
    """Addresses that know how they are reached, as the spec says, or whoever named them."""
    kafka = node.texts("kafka")
    _check_secrets(f"{node.place}.kafka", {KAFKA + name: value for name, value in kafka.items()})
    unknown = [name for name in kafka if not is_security(name)]
    if unknown:
        raise SpecError(f"{node.place}.kafka: {unknown[0]} is no setting that secures connections")
    if isinstance(bootstrap, SecuredBootstrap) or not kafka:
        return bootstrap
    return SecuredBootstrap(bootstrap, with_providers(kafka))


def _status_topic(node: _Node) -> str | None:
    said = node.take("status_topic", STATUS_TOPIC)
    if said is False:  # `off` in YAML
        return None
    if not isinstance(said, str) or not said:
        raise SpecError(f"{node.place}.status_topic is the name of a topic, or off")
    return said


def _registry(node: _Node) -> dict[str, str]:
    """The options of a registry: its URL, or a mapping with that and more."""
    given = node.take("registry", None)
    if given is None:
        return {}
    if not isinstance(given, dict):
        given = {"url": given}
    options = {f"{PREFIX}{name}": str(value) for name, value in given.items()}
    _check_secrets(f"{node.place}.registry", options)
    try:
        access_of(options)
    except OptionError as error:
        raise SpecError(f"{node.place}.registry: {error}") from None
    return options


def _lineage(node: _Node) -> str | None:
    given = node.optional("lineage")
    if given not in (None, "environment") and not str(given).startswith(("http://", "https://")):
        raise SpecError(f"{node.place}.lineage is a URL of an OpenLineage server, or environment, not {given!r}")
    return given


def _check_formats(pipeline: Pipeline) -> None:
    for flow in pipeline.flows:
        wanting = flow.sink.format or (flow.source.format if flow.source.format == JSON_SCHEMA else None)
        if wanting is not None and not pipeline.registry:
            raise SpecError(f"flow {flow.name}: format {wanting} needs a registry: `registry: http://HOST:8081`")


def _check_secrets(place: str, options: Mapping[str, str]) -> None:
    for name, value in options.items():
        if name.lower() == STORE_OPTIONS and (credential := credential_in(value)):
            raise SpecError(f"{place}: {credential} is a credential, and executors take those of their environment")
        bare = name in SECRETS and REFERENCE.search(value) is None
        if bare or (name.startswith(KAFKA) and bare_secret(name.removeprefix(KAFKA), value)):
            raise SpecError(
                f"{place}: {name.removeprefix(KAFKA)} is a secret, and this file is read by many: write "
                "${env:NAME}, ${file:PATH:KEY} or ${directory:PATH:FILE}, and put it there"
            )


def _check_tables(flows: tuple[Flow, ...]) -> None:
    """Two flows may feed one table, but then they say so with the same path."""
    paths: dict[Any, str] = {}
    for flow in flows:
        table = flow.sink.table
        if table is not None and table.catalog:
            known = paths.setdefault((tuple(sorted(table.catalog.items())), table.name), table.path)
            if known != table.path:
                raise SpecError(f"flow {flow.name}: table {table.name} is at {known} already, not at {table.path}")


def _flow(node: _Node, folder: Path) -> Flow:
    flow = Flow(
        name=node.text("name"),
        source=_source(_Node(node.take("source"), f"{node.place}.source"), folder),
        sink=_sink(_Node(node.take("sink"), f"{node.place}.sink"), folder),
        transform=node.optional("transform"),
    )
    node.done()
    return flow


def _source(node: _Node, folder: Path) -> Source:
    form = node.optional("format")
    source = Source(
        topic=node.optional("topic"),
        pattern=node.optional("pattern"),
        format=form,
        schema=_schema(form, node.optional("schema"), folder),
        message=node.optional("message"),
        envelope=node.optional("envelope"),
        start=node.text("start", "earliest"),
        max_per_trigger=node.number("max_per_trigger"),
        dead_letters=node.optional("dead_letters"),
        max_bad_records=node.number("max_bad_records", least=0),
        max_bad_share=node.share("max_bad_share"),
        options=node.texts("options"),
    )
    node.done()
    _check_secrets(f"{node.place}.options", source.options)
    if source.envelope not in (None, DEBEZIUM):
        raise SpecError(f"{node.place}.envelope is {DEBEZIUM}, not {source.envelope!r}")
    if source.envelope is not None and source.format not in ("json", *BY_REGISTRY):
        raise SpecError(f"{node.place}: an envelope is of values that are decoded: say their format and schema")
    if (source.topic is None) == (source.pattern is None):
        raise SpecError(f"{node.place}: exactly one of topic and pattern says what to read")
    return source


def _schema(form: str | None, schema: str | None, folder: Path) -> str | None:
    """A schema as it is, or its file in the project."""
    if schema is None or form not in ("avro", "protobuf") or schema.lstrip().startswith("{"):
        return schema
    located = _located(schema, folder)
    is_file = form == "avro" or (len(schema) < 4096 and Path(located).is_file())
    return located if is_file else schema  # the other thing that Protobuf takes is base64


def _sink(node: _Node, folder: Path) -> Sink:
    given = node.take("table", None)
    table = None if given is None else _table(_Node(given, f"{node.place}.table"), folder)
    sink = Sink(
        topic=node.optional("topic"),
        table=table,
        mode=node.text("mode", "append"),
        format=node.optional("format"),
        options=node.texts("options"),
    )
    node.done()
    _check_secrets(f"{node.place}.options", sink.options)
    if (sink.topic is None) == (sink.table is None):
        raise SpecError(f"{node.place}: exactly one of topic and table says where to write")
    if sink.format is not None and (sink.format not in BY_REGISTRY or sink.topic is None):
        raise SpecError(f"{node.place}.format is of a topic, one of {', '.join(BY_REGISTRY)}")
    if sink.mode not in MODES:
        raise SpecError(f"{node.place}.mode is one of {', '.join(MODES)}, not {sink.mode!r}")
    if sink.table is not None and sink.mode != "append":
        raise SpecError(f"{node.place}: a table is only appended to; mode {sink.mode} needs a topic")
    return sink


def _table(node: _Node, folder: Path) -> TableSpec:
    form = node.text("format", "delta")
    if form not in FORMATS:
        raise SpecError(f"{node.place}.format is one of {', '.join(FORMATS)}, not {form!r}")
    table = TableSpec(
        path=_located(node.text("path"), folder),
        format=form,  # type: ignore[arg-type]
        partition_by=tuple(map(str, node.items("partition_by"))),
        name=node.text("name", ""),
        catalog=node.texts("catalog"),
        upsert=_upsert(node),
    )
    node.done()
    for name, value in table.catalog.items():
        if _OF_CATALOG.search(name.lower()) or has_login(value):
            variable = name.upper().replace(".", "__").replace("-", "_")
            raise SpecError(
                f"{node.place}.catalog: {name} is a secret, and this file is read by many: leave it out, and set the "
                f"environment variable PYICEBERG_CATALOG__KAVKA__{variable}"
            )
    if table.upsert is not None and form == "parquet":
        raise SpecError(f"{node.place}: a table is delta or iceberg to have upserts; Parquet files are only added")
    if table.catalog and not table.name:
        raise SpecError(f"{node.place}: a table in a catalog needs a name: `name: NAMESPACE.TABLE`")
    return table


def _upsert(node: _Node) -> Upsert | None:
    given = node.take("upsert", None)
    if given is None:
        return None
    inner = _Node(given, f"{node.place}.upsert")
    keys = tuple(map(str, inner.items("key")))
    found = Upsert(keys, inner.text("order_by", OFFSET), inner.flag("history"))
    inner.done()
    if not keys:
        raise SpecError(f"{inner.place}.key names the columns by which rows are the same")
    return found


def _located(path: str, folder: Path) -> str:
    return path if "://" in path or path.startswith(("/", "file:")) else str(folder / path)


class _Node:
    """A mapping in the document, and where it is; what nobody took is a mistake."""

    def __init__(self, value: Any, place: str) -> None:
        if not isinstance(value, dict):
            raise SpecError(f"{place} must be a mapping, not {type(value).__name__}")
        self._left = dict(value)
        self.place = place

    def take(self, name: str, *default: Any) -> Any:
        if name in self._left:
            return self._left.pop(name)
        if default:
            return default[0]
        raise SpecError(f"{self.place} lacks {name!r}")

    def text(self, name: str, *default: str) -> str:
        value = self.take(name, *default)
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise SpecError(f"{self.place}.{name} must be text")
        return str(value)

    def optional(self, name: str) -> str | None:
        return self.text(name) if self._left.get(name) is not None else self._left.pop(name, None)

    def number(self, name: str, *, least: int = 1) -> int | None:
        value = self.take(name, None)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise SpecError(f"{self.place}.{name} must be a number from {least} on")
        return value

    def share(self, name: str) -> float | None:
        value = self.take(name, None)
        if value is not None and (not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1):
            raise SpecError(f"{self.place}.{name} must be a number from 0 to 1")
        return value

    def flag(self, name: str) -> bool:
        value = self.take(name, False)
        if not isinstance(value, bool):
            raise SpecError(f"{self.place}.{name} must be true or false")
        return value

    def items(self, name: str) -> list[Any]:
        value = self.take(name, [])
        if not isinstance(value, list):
            raise SpecError(f"{self.place}.{name} must be a list")
        return value

    def texts(self, name: str) -> dict[str, str]:
        value = self.take(name, {})
        if not isinstance(value, dict):
            raise SpecError(f"{self.place}.{name} must be a mapping")
        return {str(key): str(each).lower() if isinstance(each, bool) else str(each) for key, each in value.items()}

    def done(self) -> None:
        if self._left:
            raise SpecError(f"{self.place} has unknown entries: {', '.join(map(str, self._left))}")

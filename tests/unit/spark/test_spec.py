"""The YAML of a pipeline: what it means, and where a mistake is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kavka.client.security import SecuredBootstrap
from kavka.spark.connecting import connection_options
from kavka.spark.options import reader_subject
from kavka.spark.pipelines.flows import sink_settings, source_settings
from kavka.spark.pipelines.project import create, transformation
from kavka.spark.pipelines.replay import letter_settings
from kavka.spark.pipelines.spec import SpecError, load, parse

FLOW: dict[str, Any] = {"name": "f", "source": {"topic": "t"}, "sink": {"table": {"path": "tables/f"}}}
SHARED: dict[str, Any] = {"format": "iceberg", "catalog": {"uri": "http://127.0.0.1:1"}}


def test_a_new_project_can_be_loaded(tmp_path: Path) -> None:
    create(tmp_path / "p", "p", "h:1")
    pipeline = load(tmp_path / "p")
    (flow,) = pipeline.flows
    assert (pipeline.name, pipeline.bootstrap, flow.source.topic) == ("p", "h:1", "orders")
    assert flow.sink.table is not None
    assert flow.sink.table.path == str(tmp_path / "p" / "tables" / "orders")
    assert pipeline.checkpoint_of(flow) == str(tmp_path / "p" / ".kavka" / "checkpoint" / "orders")
    assert transformation(pipeline, flow).__name__ == "clean"
    assert load(tmp_path / "p", "other:2").bootstrap == "other:2"
    with pytest.raises(SpecError, match="exists already"):
        create(tmp_path / "p", "p", "h:1")


def test_the_file_of_a_schema_is_one_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "order.pb").write_bytes(b"x")

    def schema(**source: str) -> str | None:
        return parse({"flows": [{**FLOW, "source": {"topic": "t", **source}}]}, tmp_path).flows[0].source.schema

    assert schema(format="avro", schema="order.avsc") == str(tmp_path / "order.avsc")
    assert schema(format="avro", schema="/elsewhere/order.avsc") == "/elsewhere/order.avsc"
    assert schema(format="avro", schema='{"type": "record"}') == '{"type": "record"}'
    assert schema(format="protobuf", schema="order.pb") == str(tmp_path / "order.pb")
    assert schema(format="protobuf", schema="AAAA") == "AAAA"
    assert schema(format="json", schema="id BIGINT") == "id BIGINT"


def test_paths_on_other_systems_stay_as_they_are(tmp_path: Path) -> None:
    table = {"path": "s3://bucket/t", "format": "iceberg"}
    pipeline = parse({"flows": [{**FLOW, "sink": {"table": table}}], "checkpoint": "/ck"}, tmp_path)
    assert pipeline.flows[0].sink.table is not None
    assert pipeline.flows[0].sink.table.path == "s3://bucket/t"
    assert pipeline.checkpoint == "/ck"


STORE = {"kavka.remote.storage.url": "s3://b/p", "kavka.remote.storage.options": "secret_access_key=x"}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "must be a mapping"),
        ({}, "has no flows"),
        ({"flows": [FLOW, FLOW]}, "same name"),
        ({"flows": [FLOW], "color": 1}, "unknown entries: color"),
        ({"flows": [{**FLOW, "source": {}}]}, r"flows\[0\].source: exactly one of topic and pattern"),
        ({"flows": [{**FLOW, "sink": {}}]}, r"flows\[0\].sink: exactly one of topic and table"),
        ({"flows": [{**FLOW, "sink": {"topic": "t", "mode": "sometimes"}}]}, "mode is one of"),
        ({"flows": [{**FLOW, "sink": {"table": {"path": "p"}, "mode": "update"}}]}, "only appended to"),
        ({"flows": [{**FLOW, "sink": {"table": {"path": "p", "format": "csv"}}}]}, "format is one of"),
        ({"flows": [{**FLOW, "source": {"topic": "t", "max_per_trigger": 0}}]}, "number from 1 on"),
        ({"flows": [{"name": "f"}]}, "lacks 'source'"),
        ({"flows": [{**FLOW, "sink": {"table": {**SHARED, "path": "p"}}}]}, "a table in a catalog needs a name"),
        ({"flows": [FLOW], "kafka": {"sasl.password": "x"}}, "sasl.password is a secret"),
        ({"flows": [FLOW], "kafka": {"fetch.max.bytes": 1}}, "fetch.max.bytes is no setting that secures"),
        (
            {"flows": [{**FLOW, "source": {"topic": "t", "options": {"kafka.ssl.key.password": "x"}}}]},
            r"flows\[0\].source.options: ssl.key.password is a secret",
        ),
        (
            {"flows": [{**FLOW, "source": {"topic": "t", "options": STORE}}]},
            r"flows\[0\].source.options: secret_access_key is a credential",
        ),
        (
            {
                "flows": [
                    {**FLOW, "sink": {"table": {"path": "p", "name": "n.t", "catalog": {"s3.session-token": "x"}}}}
                ]
            },
            r"catalog: s3.session-token is a secret.* PYICEBERG_CATALOG__KAVKA__S3__SESSION_TOKEN$",
        ),
        (
            {"flows": [{**FLOW, "sink": {"table": {"path": "p", "name": "n.t", "catalog": {"uri": "pg://u:p@h/d"}}}}]},
            r"catalog: uri is a secret.* PYICEBERG_CATALOG__KAVKA__URI$",
        ),
        (
            {
                "flows": [
                    {**FLOW, "name": each, "sink": {"table": {**SHARED, "path": each, "name": "n.t"}}} for each in "ab"
                ]
            },
            "flow b: table n.t is at .*/a already, not at .*/b",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(document: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=message):
        parse(document, tmp_path)


def test_how_the_cluster_is_secured_is_said_once_with_references_for_secrets(tmp_path: Path) -> None:
    kafka = {"security.protocol": "SASL_SSL", "sasl.password": "${env:PASSWORD}"}
    pipeline = parse({"flows": [FLOW], "bootstrap": "h:1", "kafka": kafka}, tmp_path)
    options = connection_options(pipeline.bootstrap)
    assert options["kafka.bootstrap.servers"] == "h:1"
    assert options["kafka.sasl.password"] == "${env:PASSWORD}"
    assert source_settings(pipeline, pipeline.flows[0].source).items() >= options.items()
    assert sink_settings(pipeline, pipeline.flows[0].sink).items() >= options.items()
    given = SecuredBootstrap("other:1", {"security.protocol": "SSL"})
    assert connection_options(parse({"flows": [FLOW], "kafka": kafka}, tmp_path, given).bootstrap) == {
        "kafka.bootstrap.servers": "other:1",
        "kafka.security.protocol": "SSL",
    }


def test_a_function_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text("x = 1\n")
    for transform in ("functions:nothing", "elsewhere:f", "functions"):
        pipeline = parse({"flows": [{**FLOW, "transform": transform}]}, tmp_path)
        with pytest.raises(SpecError, match="flow f"):
            transformation(pipeline, pipeline.flows[0])


def test_a_folder_without_a_spec_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="kavka pipeline init"):
        load(tmp_path)


def test_a_registry_is_one_line(tmp_path: Path) -> None:
    flow = {"name": "f", "source": {"topic": "t", "format": "avro"}, "sink": {"topic": "u", "format": "protobuf"}}
    pipeline = parse({"registry": "http://r:8081", "flows": [flow]}, tmp_path)
    source, sink = source_settings(pipeline, pipeline.flows[0].source), sink_settings(pipeline, pipeline.flows[0].sink)
    assert (source["value.format"], source["schema.registry.url"]) == ("avro", "http://r:8081")
    assert (sink["value.format"], sink["schema.registry.url"]) == ("protobuf", "http://r:8081")
    own = {**flow, "source": {"topic": "t", "format": "avro", "schema": '{"type": "record"}'}}
    pipeline = parse({"registry": "http://r:8081", "flows": [own]}, tmp_path)
    assert "schema.registry.url" not in source_settings(pipeline, pipeline.flows[0].source)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "needs a registry"),
        ({"registry": {"url": "http://r", "basic.auth.user.info": "me:secret"}}, "is a secret"),
        ({"registry": {"url": "http://r", "password": "x"}}, "there is no option"),
        ({"registry": {"ssl.truststore.location": "/ca"}}, "schema.registry.url"),
    ],
)
def test_a_registry_is_declared_as_it_should_be(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    flow = {"name": "f", "source": {"topic": "t", "format": "json-schema"}, "sink": {"topic": "u"}}
    with pytest.raises(SpecError, match=message):
        parse({"flows": [flow], **more}, tmp_path)


def test_the_format_of_a_sink_is_a_topics(tmp_path: Path) -> None:
    for sink in ({"table": {"path": "p"}, "format": "avro"}, {"topic": "u", "format": "csv"}):
        with pytest.raises(SpecError, match=r"sink\.format is of a topic"):
            parse({"registry": "http://r", "flows": [{**FLOW, "sink": sink}]}, tmp_path)


def test_letters_are_read_by_the_schema_of_the_topic_that_they_come_from(tmp_path: Path) -> None:
    source = {"topic": "orders", "format": "avro", "dead_letters": "dead"}
    document = {"flows": [{**FLOW, "source": source}], "registry": "http://127.0.0.1:8081"}
    pipeline = parse(document, tmp_path)
    found = letter_settings(pipeline, pipeline.flows[0].source, "dead")
    assert (found["subscribe"], reader_subject(found)) == ("dead", ("orders-value", "latest"))
    plain = parse({"flows": [{**FLOW, "source": {**source, "format": "json", "schema": "a INT"}}]}, tmp_path)
    assert "value.subject" not in letter_settings(plain, plain.flows[0].source, "dead")

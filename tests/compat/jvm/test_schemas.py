"""Our schemas against the descriptors inside of Kafka's jars, field by field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jvm.descriptors import differences, kafka_form, our_form, read_descriptors

from kavka.metadata.records import RECORDS, record_class
from kavka.protocol.registry import API, OURS
from kavka.protocol.schemas import control_records

CONTROL_RECORDS = (
    control_records.ControlRecordTypeSchema,
    control_records.EndTxnMarker,
    control_records.KRaftVersionRecord,
    control_records.LeaderChangeMessage,
    control_records.SnapshotFooterRecord,
    control_records.SnapshotHeaderRecord,
    control_records.VotersRecord,
)


@pytest.fixture(scope="module")
def descriptors() -> dict[str, dict[str, Any]]:
    from kafka_jars import fetch

    jars: Path = fetch.folder()
    if not any(jars.rglob("kafka-clients-*.jar")):
        pytest.skip(
            f"no Kafka jars in {jars}: `make compat-jvm` fetches them, or KAVKA_KAFKA_JARS names a folder of them"
        )
    return read_descriptors(jars)


def served(descriptors: dict[str, dict[str, Any]], kind: str) -> dict[int, dict[str, Any]]:
    """Kafka's messages of a kind, without those that have no version left."""
    folder = "metadata" if kind == "metadata" else "message"  # tiered storage has records of this kind elsewhere
    return {
        each["apiKey"]: each
        for each in descriptors.values()
        if each["type"] == kind and each["validVersions"] != "none" and each["path"].startswith(f"common/{folder}/")
    }


def test_we_have_every_api_and_no_other(descriptors: dict[str, dict[str, Any]]) -> None:
    assert {key: each["name"] for key, each in served(descriptors, "request").items()} == {
        key: api.request().__name__ for key, api in API.items() if key not in OURS
    }
    assert {key: each["name"] for key, each in served(descriptors, "response").items()} == {
        key: api.response().__name__ for key, api in API.items() if key not in OURS
    }


def test_every_request_and_response_is_as_kafka_describes_it(descriptors: dict[str, dict[str, Any]]) -> None:
    found = []
    for api in (one for key, one in API.items() if key not in OURS):
        for cls in (api.request(), api.response()):
            found += differences(our_form(cls), kafka_form(descriptors[cls.__name__]), cls.__name__)
    assert not found, "\n".join(found)


def test_every_api_is_served_by_the_listeners_that_kafka_names(descriptors: dict[str, dict[str, Any]]) -> None:
    for key, each in served(descriptors, "request").items():
        assert API[key].listeners == frozenset(each["listeners"]), each["name"]


def test_every_metadata_record_is_as_kafka_describes_it(descriptors: dict[str, dict[str, Any]]) -> None:
    kafkas = served(descriptors, "metadata")
    assert {key: each["name"] for key, each in kafkas.items()} == {key: name for key, (_, name) in RECORDS.items()}
    found = []
    for key, descriptor in kafkas.items():
        found += differences(our_form(record_class(key)), kafka_form(descriptor), descriptor["name"])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("cls", CONTROL_RECORDS, ids=lambda cls: cls.__name__)
def test_every_control_record_is_as_kafka_describes_it(cls: type, descriptors: dict[str, dict[str, Any]]) -> None:
    assert differences(our_form(cls), kafka_form(descriptors[cls.__name__]), cls.__name__) == []


def test_a_difference_is_found_and_named(descriptors: dict[str, dict[str, Any]]) -> None:
    ours, kafkas = our_form(API[3].request()), kafka_form(descriptors["FetchRequest"])
    assert any("key" in line for line in differences(ours, kafkas, "Metadata"))
    changed = ours._replace(fields=(ours.fields[0]._replace(ignorable=False, default=7), *ours.fields[1:]))
    assert len(differences(changed, ours, "Metadata")) == 2

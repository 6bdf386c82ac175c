"""The records that coordinators write, and what classic consumers embed in theirs, against Kafka's descriptors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jvm.descriptors import differences, kafka_form, our_form, read_descriptors

from kavka.coordinator.classic import embedded
from kavka.coordinator.kinds import codec_of
from kavka.coordinator.share import records as share
from kavka.coordinator.share_state import records as share_state
from kavka.coordinator.txn.records import TransactionLogKey, TransactionLogValue

RECORDS = codec_of().classes


@pytest.fixture(scope="module")
def descriptors() -> dict[str, dict[str, Any]]:
    from kafka_jars import fetch

    jars: Path = fetch.folder()
    if not any(jars.rglob("kafka-group-coordinator-*.jar")):
        pytest.skip(f"no Kafka jars in {jars}: `make compat-jvm` fetches them")
    return read_descriptors(jars)


@pytest.mark.parametrize("kind", RECORDS)
def test_every_record_is_as_kafka_describes_it(kind: int, descriptors: dict[str, dict[str, Any]]) -> None:
    found = []
    for cls in RECORDS[kind]:
        found += differences(our_form(cls), kafka_form(descriptors[cls.__name__]), cls.__name__)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "cls",
    [
        TransactionLogKey,
        TransactionLogValue,
        *(cls for classes in share.RECORDS for cls in classes),
        share_state.ShareSnapshotKey,
        share_state.ShareSnapshotValue,
        share_state.ShareUpdateKey,
        share_state.ShareUpdateValue,
    ],
)
def test_the_records_of_other_coordinators_are_as_kafka_describes_them(
    cls: type, descriptors: dict[str, dict[str, Any]]
) -> None:
    assert differences(our_form(cls), kafka_form(descriptors[cls.__name__]), cls.__name__) == []


def test_every_record_that_groups_write_is_known(descriptors: dict[str, dict[str, Any]]) -> None:
    kinds = {
        each["apiKey"]: each["name"]
        for each in descriptors.values()
        if each["type"] == "coordinator-key" and ("Group" in each["name"] or "OffsetCommit" in each["name"])
    }
    assert kinds.keys() == RECORDS.keys()


@pytest.mark.parametrize("cls", [embedded.ConsumerProtocolSubscription, embedded.ConsumerProtocolAssignment])
def test_what_consumers_embed_is_as_kafka_describes_it(cls: type, descriptors: dict[str, dict[str, Any]]) -> None:
    assert differences(our_form(cls), kafka_form(descriptors[cls.__name__]), cls.__name__) == []

"""Every message at every version, encoded and decoded by ours and by kio: the bytes are the same both ways.

kio is an independent implementation whose schemas come from Kafka's own descriptors.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kavka.model.types import Uuid
from kavka.protocol.compiler import decode, encode
from kavka.protocol.registry import API, OURS
from kavka.protocol.schema import OWN_TAGS, Array, Field, Struct, declared, fields_of, new_default, replace
from kavka.protocol.schemas import control_records

kio_index = pytest.importorskip("kio.schema.index", reason="kio is not installed")

LEFT_OUT: dict[tuple[str, int], str] = {
    ("GetReplicaLogInfoRequest", 0): "Kafka does not have it",
    ("GetReplicaLogInfoResponse", 0): "Kafka does not have it",
    ("RegistryCallRequest", 0): "Kafka does not have it",
    ("RegistryCallResponse", 0): "Kafka does not have it",
}
"""Messages and versions that kio gets wrong or does not know, with the reason."""

CONTROL_RECORDS = {
    "control_record_type_schema": control_records.ControlRecordTypeSchema,
    "end_txn_marker": control_records.EndTxnMarker,
    "k_raft_version_record": control_records.KRaftVersionRecord,
    "leader_change_message": control_records.LeaderChangeMessage,
    "snapshot_footer_record": control_records.SnapshotFooterRecord,
    "snapshot_header_record": control_records.SnapshotHeaderRecord,
    "voters_record": control_records.VotersRecord,
}


def test_both_know_the_same_api_keys() -> None:
    assert set(kio_index.api_key_map) == set(API) - OURS


def test_ours_and_kio_give_and_take_the_same_bytes(
    samples: Callable[[type, int], Iterator[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    compared, messages, unknown = 0, 0, []
    for name, cls in our_messages():
        for version in declared(cls).versions:
            theirs = kio_class(name, cls, version)
            if theirs is None:
                unknown.append(f"{cls.__name__} v{version}: kio does not have it")
            elif (cls.__name__, version) in LEFT_OUT:
                unknown.append(f"{cls.__name__} v{version}: {LEFT_OUT[cls.__name__, version]}")
            else:
                messages += sum(compare(without_own(ours), theirs, version) for ours in samples(cls, version))
                compared += 1
    with capsys.disabled():
        print(f"\nours = kio for {compared} pairs of message and version, {messages} messages; left out: {unknown}")  # noqa: T201
    assert compared > 600
    assert len(unknown) == len(LEFT_OUT)


def test_kio_has_no_version_that_we_lack() -> None:
    for key, name in kio_index.api_key_map.items():
        assert set(kio_index.schema_name_map[name]) <= set(range(API[key].min_version, API[key].max_version + 1))


def our_messages() -> Iterator[tuple[str, type]]:
    for api in API.values():
        yield api.stem, api.request()
        yield api.stem, api.response()
    yield from CONTROL_RECORDS.items()


def kio_class(name: str, cls: type, version: int) -> Any:
    """Kio's class for the same message, or None."""
    from pkgutil import resolve_name

    kind = "response" if cls.__name__.endswith("Response") else "request" if name not in CONTROL_RECORDS else "data"
    by_kind = kio_index.schema_name_map.get(name, {}).get(version, {})
    return next((resolve_name(path) for each, path in by_kind.items() if each.name == kind), None)


def without_own(message: Any) -> Any:
    """A message without what Kafka does not have."""
    changes: dict[str, Any] = {}
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if field.tag is not None and field.tag >= OWN_TAGS:
            changes[field.name] = new_default(field)
        elif isinstance(field.type, Struct) and value is not None:
            changes[field.name] = without_own(value)
        elif isinstance(field.type, Array) and isinstance(field.type.element, Struct) and value is not None:
            changes[field.name] = [without_own(item) for item in value]
    return replace(message, **changes)


def compare(ours: Any, kio_type: Any, version: int) -> int:
    """Encode with both, decode with both what the other encoded."""
    from kio.serial import entity_reader, entity_writer

    theirs = as_kio(ours, kio_type, version)
    buffer = io.BytesIO()
    entity_writer(kio_type)(buffer, theirs)
    encoded = encode(ours, version)
    assert encoded == buffer.getvalue(), (ours, version)
    assert decode(type(ours), buffer.getvalue(), version) == ours, version
    assert entity_reader(kio_type)(encoded, 0) == (theirs, len(encoded)), version
    return 1


def as_kio(ours: Any, kio_type: Any, version: int) -> Any:
    """The same message as an object of kio's."""
    mine = [
        field
        for field in fields_of(type(ours))
        if version in field.versions and (field.tag is None or field.tag < OWN_TAGS)
    ]
    theirs = dataclasses.fields(kio_type)
    assert [plain_name(field.name) for field in mine] == [plain_name(field.name) for field in theirs]
    return kio_type(
        **{
            there.name: convert(getattr(ours, here.name), here, there, version)
            for here, there in zip(mine, theirs, strict=True)
        }
    )


def plain_name(name: str) -> str:
    """A field's name without what the two write differently: units, acronyms, names that Python has taken."""
    return name.removesuffix("_ms").removesuffix("_").replace("k_raft", "kraft")


def convert(value: Any, here: Field, there: dataclasses.Field[Any], version: int) -> Any:
    from kio.serial._introspect import classify_field

    if value is None:
        return None
    if isinstance(here.type, Array):
        if isinstance(here.type.element, Struct):
            return tuple(as_kio(item, classify_field(there).type_, version) for item in value)
        return tuple(convert_scalar(item, there.metadata["kafka_type"]) for item in value)
    if isinstance(here.type, Struct):
        return as_kio(value, classify_field(there).type_, version)
    return convert_scalar(value, there.metadata["kafka_type"])


def convert_scalar(value: Any, kind: str) -> Any:
    """A value in the richer types of kio, in which a zero id and the time -1 are None."""
    from kio.schema.errors import ErrorCode

    match kind:
        case "uuid":
            return uuid.UUID(bytes=value) if value != Uuid.ZERO else None
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=value)
        case "datetime_i64":
            epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
            return None if value == -1 else epoch + datetime.timedelta(milliseconds=value)
        case _:
            return value

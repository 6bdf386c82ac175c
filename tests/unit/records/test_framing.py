"""Batches whose records have to have registered schemas: what is asked for, what is refused, and how much is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kavka.kernels.layout import MAX_REJECTED, MAX_UNKNOWN_FRAMES
from kavka.model.errors import InvalidRecord
from kavka.records.batch import Record
from kavka.records.builder import build_batch
from kavka.records.framing import MAX_SCHEMAS, KnownSchemas, Refused, SchemaRules, SchemasNotKnown
from kavka.records.rejections import RecordsRejected
from kavka.records.validate import ProduceRules, Validation, validate
from kavka.wire.compression import CODECS

NOW = 1_700_000_000_000
VALUES = SchemaRules(value="TopicNameStrategy")
RULES = ProduceRules(max_message_bytes=64 << 20, schemas=VALUES)
CODEC_NAMES = ["none", *(name for name in CODECS if name != "none")]


def frame(id_: int) -> bytes:
    return b"\x00" + id_.to_bytes(4, "big")


def batch(*values: bytes | None, codec: str = "none", key: bytes | None = None) -> bytes:
    return build_batch([Record(at, NOW, key, value) for at, value in enumerate(values)], codec=CODECS.get(codec, 0))


def judged(data: bytes, known: KnownSchemas, budget: int = 1 << 40) -> Validation:
    return go_on(Validation(data, RULES, NOW, known=known), budget)


def go_on(validation: Validation, budget: int = 1 << 40) -> Validation:
    while not validation.done and validation.unknown is None:
        validation.run(budget)
    return validation


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize("budget", [1, 1 << 40])
def test_what_is_known_is_taken_as_it_came(codec: str, budget: int) -> None:
    data = batch(*[frame(1) + bytes(300)] * 1_000, None, codec=codec)
    validation = judged(data, KnownSchemas("t", VALUES, values={frame(1)}), budget)
    assert bytes(validation.result()[0]) == data


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_what_nobody_knows_yet_is_asked_for_once(codec: str) -> None:
    known = KnownSchemas("t", VALUES, values={frame(1)})
    validation = judged(batch(frame(1), frame(2) + b"x", frame(3), frame(2), codec=codec), known)
    assert validation.unknown is not None
    assert (validation.unknown.keys, validation.unknown.values) == (set(), {frame(2), frame(3)})
    known.values |= validation.unknown.values
    validation.told(Refused())
    assert validation.done
    assert validation.unknown is None
    assert validation.result()[1][0].count == 4


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_all_records_with_a_schema_that_is_not_registered_are_named(codec: str) -> None:
    known = KnownSchemas("t", VALUES)
    validation = judged(batch(frame(1), frame(2), frame(1), frame(2), codec=codec), known)
    known.values.add(frame(1))
    validation.told(Refused(values={frame(2)}))
    with pytest.raises(RecordsRejected, match="2 of 4 records") as error:
        go_on(validation).result()
    said = "the value's schema 2 is not registered for t (TopicNameStrategy)"
    assert error.value.record_errors == ((1, said), (3, said))


def test_what_names_no_schema_is_refused_without_asking() -> None:
    validation = judged(batch(frame(1), b"raw", b""), KnownSchemas("t", VALUES, values={frame(1)}))
    assert validation.unknown is None
    with pytest.raises(RecordsRejected) as error:
        validation.result()
    assert [index for index, _ in error.value.record_errors] == [1, 2]


def test_a_batch_is_refused_for_now_if_nobody_can_tell() -> None:
    validation = judged(batch(frame(1)), KnownSchemas("t", VALUES))
    validation.told(SchemasNotKnown("away"))
    with pytest.raises(SchemasNotKnown, match="away"):
        validation.result()


def test_records_of_both_faults_are_named_together() -> None:
    validation = judged(batch(b"raw", frame(2)), KnownSchemas("t", VALUES))
    validation.told(Refused(values={frame(2)}))
    with pytest.raises(RecordsRejected) as error:
        go_on(validation).result()
    assert [index for index, _ in error.value.record_errors] == [0, 1]


def test_what_is_wrong_in_any_case_is_refused_for_good() -> None:
    validation = judged(batch(b"raw", frame(2)), KnownSchemas("t", VALUES))
    validation.told(SchemasNotKnown("away"))
    with pytest.raises(RecordsRejected):
        validation.result()


def test_nothing_is_taken_that_was_not_held_against_the_schemas() -> None:
    with pytest.raises(SchemasNotKnown):
        validate(batch(frame(1)), RULES, NOW)


def test_what_is_no_batch_is_told_first() -> None:
    data = bytearray(batch(frame(1)))
    data[-1] ^= 1
    validation = judged(bytes(data), KnownSchemas("t", VALUES))
    assert validation.done
    with pytest.raises(Exception, match="CRC"):
        validation.result()


def test_keys_and_values_have_rules_of_their_own() -> None:
    rules = SchemaRules(key="RecordNameStrategy")
    known = KnownSchemas("t", rules)
    validation = Validation(batch(b"raw", key=frame(5)), replace(RULES, schemas=rules), NOW, known=known)
    go_on(validation)
    assert validation.unknown is not None
    assert (validation.unknown.keys, validation.unknown.values) == ({frame(5)}, set())


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_many_schemas_are_asked_for_some_at_a_time(codec: str) -> None:
    known = KnownSchemas("t", VALUES)
    validation = judged(batch(*map(frame, range(250)), codec=codec), known)
    rounds = 0
    while validation.unknown is not None:
        assert len(validation.unknown.values) <= MAX_UNKNOWN_FRAMES
        rounds += 1
        known.values |= validation.unknown.values
        validation.told(Refused())
        go_on(validation)
    assert rounds == 3
    assert validation.result()[1][0].count == 250


def test_a_batch_does_not_name_thousands_of_schemas() -> None:
    known = KnownSchemas("t", VALUES)
    validation = judged(batch(*map(frame, range(MAX_SCHEMAS + 1))), known)
    while validation.unknown is not None:
        known.values |= validation.unknown.values
        validation.told(Refused())
        go_on(validation)
    with pytest.raises(InvalidRecord, match="more than 1000 schemas"):
        validation.result()


def test_not_more_than_a_thousand_records_are_named() -> None:
    validation = judged(batch(*[b"raw"] * (MAX_REJECTED + 5)), KnownSchemas("t", VALUES))
    with pytest.raises(RecordsRejected, match=f"{MAX_REJECTED + 5} of {MAX_REJECTED + 5}") as error:
        validation.result()
    assert len(error.value.record_errors) == MAX_REJECTED


@pytest.mark.parametrize("target", ["gzip", "uncompressed"])
def test_a_topic_with_a_codec_of_its_own_is_checked_as_well(target: str) -> None:
    rules = replace(RULES, compression_type=target)
    known = KnownSchemas("t", VALUES)
    validation = Validation(batch(frame(1), frame(2), codec="lz4"), rules, NOW, known=known)
    go_on(validation)
    assert validation.unknown is not None
    known.values |= validation.unknown.values
    validation.told(Refused())
    data, (info,) = validation.result()
    assert info.count == 2
    again = Validation(bytes(data), replace(rules, compression_type="producer"), NOW, known=known)
    go_on(again).result()

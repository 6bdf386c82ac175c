"""The comparison finds what is planted: it is given Kafka's own answers with one thing wrong in each."""

from __future__ import annotations

from typing import Any

import pytest
from jvm.differential.session import Told
from jvm.differential.shape import differences, shape
from jvm.differential.talk import Outcome

from kavka.model.types import Uuid
from kavka.protocol.compiler import decode, encode
from kavka.protocol.registry import API
from kavka.protocol.schema import replace


def name(topic_id: Uuid) -> str:
    """Any name will do: nothing here is about ids."""
    return "<id>"


def found(kafkas: Told, case: str, planted: Any) -> dict[str, tuple[Any, Any]]:
    """The differences between Kafka's answer to a case and the planted one, after a trip over the wire."""
    true = kafkas.outcomes[case]
    assert true.spoken is not None
    key, version = true.spoken
    body = planted if isinstance(planted, bytes) else encode(planted, version)
    wrong = Outcome(message=decode(API[key].response(), body, version), body=body, spoken=true.spoken)
    return differences(shape(true, name, {}), shape(wrong, name, {}))


def first(rows: list[Any], **changes: object) -> list[Any]:
    """The rows, the first of them changed."""
    return [replace(rows[0], **changes), *rows[1:]]


def test_the_true_answer_shows_no_difference(kafkas: Told) -> None:
    for case, outcome in kafkas.outcomes.items():
        if outcome.message is not None:
            assert found(kafkas, case, outcome.body) == {}


def test_a_wrong_default_is_found(kafkas: Told) -> None:
    case = "configs of a topic v4"
    body = kafkas.outcomes[case].body
    assert body.count(b"86400000") == 1
    assert found(kafkas, case, body.replace(b"86400000", b"86400001")) == {
        "results.compacted.configs.delete.retention.ms.value": ("86400000", "86400001")
    }


def test_a_wrong_error_code_is_found(kafkas: Told) -> None:
    case = "create a topic again v7"
    answer = kafkas.outcomes[case].message
    planted = replace(answer, topics=first(answer.topics, error_code=37))
    assert found(kafkas, case, planted) == {"topics.twin.error_code": (36, 37)}


def test_a_shifted_field_is_found(kafkas: Told) -> None:
    case = "offset by time 3000"
    answer = kafkas.outcomes[case].message
    (row,) = answer.topics[0].partitions
    swapped = first(answer.topics[0].partitions, timestamp=row.offset, offset=row.timestamp)
    planted = replace(answer, topics=first(answer.topics, partitions=swapped))
    path = "topics.fetched.partitions.0"
    assert found(kafkas, case, planted) == {
        f"{path}.timestamp": (row.timestamp, row.offset),
        f"{path}.offset": (row.offset, row.timestamp),
    }


def test_a_shifted_byte_is_found(kafkas: Told) -> None:
    case = "latest offset v1"
    body = kafkas.outcomes[case].body
    assert found(kafkas, case, body[:-8] + body[-7:] + b"\0") != {}


@pytest.mark.parametrize("words", [None, ""])
def test_a_message_that_is_missing_is_found(kafkas: Told, words: str | None) -> None:
    case = "create a topic again v7"
    answer = kafkas.outcomes[case].message
    planted = replace(answer, topics=first(answer.topics, error_message=words))
    assert found(kafkas, case, planted) == {"topics.twin.error_message": ("<words>", words)}


def test_a_missing_row_is_found(kafkas: Told) -> None:
    case = "api versions v4"
    answer = kafkas.outcomes[case].message
    keys = [row for row in answer.api_keys if row.api_key != 23]
    assert list(found(kafkas, case, replace(answer, api_keys=keys))) == ["api_keys.23"]


def test_the_order_of_rows_is_no_difference(kafkas: Told) -> None:
    case = "api versions v4"
    answer = kafkas.outcomes[case].message
    assert found(kafkas, case, replace(answer, api_keys=answer.api_keys[::-1])) == {}


def test_a_changed_record_is_found(kafkas: Told) -> None:
    case = "fetch v12"
    body = kafkas.outcomes[case].body
    (path,) = found(kafkas, case, body.replace(b"5000", b"5001", 1))
    assert path.startswith("responses.fetched.partitions.0.records.")


def test_hanging_up_instead_of_answering_is_found(kafkas: Told) -> None:
    answered = shape(kafkas.outcomes["fetch v12"], name, {})
    assert "closed" in differences(answered, shape(Outcome(closed=True), name, {}))

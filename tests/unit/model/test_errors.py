"""The error table: codes, names and what a client may retry."""

from __future__ import annotations

import pytest

from kavka.model import errors
from kavka.model.errors import BY_CODE, InvalidRequest, KafkaError, MalformedMessage, code_of


def test_the_codes_run_from_minus_one_to_133_without_a_gap() -> None:
    assert sorted(BY_CODE) == [-1, *range(1, 134)]


def test_every_error_class_is_found_by_its_code_and_no_code_has_two() -> None:
    classes = [cls for cls in KafkaError.__subclasses__() if cls.__module__ == errors.__name__]
    assert len(classes) == len(BY_CODE)
    assert all(BY_CODE[cls.code] is cls for cls in classes)
    assert all(getattr(errors, cls.__name__) is cls for cls in classes)


@pytest.mark.parametrize(
    ("name", "code", "retriable"),
    [
        ("UnknownServerError", -1, False),
        ("OffsetOutOfRange", 1, False),
        ("CorruptMessage", 2, True),
        ("UnknownTopicOrPartition", 3, True),
        ("NotLeaderOrFollower", 6, True),
        ("InvalidTopicException", 17, False),
        ("NotEnoughReplicas", 19, True),
        ("UnsupportedVersion", 35, False),
        ("InvalidRequest", 42, False),
        ("KafkaStorageError", 56, True),
        ("UnknownProducerId", 59, False),
        ("ElectionNotNeeded", 84, True),
        ("UnknownTopicId", 100, True),
        ("FencedMemberEpoch", 110, False),
        ("ShareSessionLimitReached", 133, True),
    ],
)
def test_names_codes_and_retriability_are_kafkas(name: str, code: int, retriable: bool) -> None:
    cls = BY_CODE[code]
    assert (cls.__name__, cls.code, cls.retriable) == (name, code, retriable)


def test_a_malformed_message_is_an_invalid_request() -> None:
    assert BY_CODE[42] is InvalidRequest
    assert code_of(MalformedMessage("cut short")) == 42


def test_what_the_protocol_has_no_word_for_is_an_unknown_server_error() -> None:
    assert code_of(ValueError("x")) == -1


def test_an_error_says_its_message_and_without_one_what_it_means() -> None:
    assert str(InvalidRequest("two topics")) == "two topics"
    assert InvalidRequest("two topics").message == "two topics"
    assert InvalidRequest().message == ""
    assert str(InvalidRequest()) == InvalidRequest.__doc__

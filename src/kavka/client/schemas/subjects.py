"""Under which subject the schema of a record is registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kavka.client.schemas.framing import Part

SubjectName = Callable[[str, Part, str | None], str]
"""The subject for a topic, a part of its records and the full name of the record's type, if it has one."""


def topic_name(topic: str, part: Part, record: str | None) -> str:
    """`TOPIC-value` or `TOPIC-key`: one type per topic."""
    return f"{topic}-{part}"


def record_name(topic: str, part: Part, record: str | None) -> str:
    """The type's own name: the same schema in all topics; raises ValueError for a schema without a name."""
    return _named(record)


def topic_record_name(topic: str, part: Part, record: str | None) -> str:
    """`TOPIC-TYPE`: several types per topic; raises ValueError for a schema without a name."""
    return f"{topic}-{_named(record)}"


def _named(record: str | None) -> str:
    if not record:
        raise ValueError("the schema has no name, which its subject should be named after")
    return record


STRATEGIES: Final[dict[str, SubjectName]] = {
    "topic": topic_name,
    "record": record_name,
    "topic-record": topic_record_name,
    "TopicNameStrategy": topic_name,
    "RecordNameStrategy": record_name,
    "TopicRecordNameStrategy": topic_record_name,
}


def strategy_of(said: str | SubjectName) -> SubjectName:
    """A strategy by its name, ours or Confluent's, with or without its package; raises ValueError."""
    if not isinstance(said, str):
        return said
    found = STRATEGIES.get(said.rpartition(".")[2])
    if found is None:
        raise ValueError(f"{said!r} is no subject name strategy: topic, record and topic-record are")
    return found

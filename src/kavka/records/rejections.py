"""What a client is told of records that break a rule of their topic, one by one."""

from __future__ import annotations

from kavka.model.errors import InvalidRecord, InvalidTimestamp

RecordError = tuple[int, str]
"""The index of a record in its batch, and what is wrong with it."""


class RecordsRejected(InvalidRecord, code=InvalidRecord.code):
    """Some of the batch's records break a rule of the topic."""

    def __init__(self, message: str = "", record_errors: tuple[RecordError, ...] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class TimestampsRejected(InvalidTimestamp, code=InvalidTimestamp.code):
    """Some of the batch's records have a timestamp outside of the topic's bounds."""

    def __init__(self, message: str = "", record_errors: tuple[RecordError, ...] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors

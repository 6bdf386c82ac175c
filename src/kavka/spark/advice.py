"""What to do about a failure: a sentence that is added to its message, where it is one that users meet."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from kavka.model.errors import BrokerNotAvailable, CorruptMessage, KafkaError, NetworkException, RequestTimedOut

GONE: Final = "when the brokers are back, start the query again: it goes on where its checkpoint ends"
CORRUPT: Final = "`kavka pipeline verify` shows how much of a topic is damaged; restore that from a replica or a backup"
NO_SPACE: Final = "No space left on device"
NO_WORKER: Final = "Python worker failed to connect back"
BUSY: Final = "the machine was too busy to start Python within ten seconds; start the query again"
FULL: Final = "free some space, then start the query again: it goes on where its checkpoint ends"

_BY_ERROR: Final[tuple[tuple[type[KafkaError], str], ...]] = (
    (CorruptMessage, CORRUPT),
    (BrokerNotAvailable, GONE),
    (NetworkException, GONE),
    (RequestTimedOut, GONE),
)


@contextlib.contextmanager
def advised() -> Iterator[None]:
    """Let failures of the brokers say what to do."""
    try:
        yield
    except KafkaError as error:
        what = next((advice for kind, advice in _BY_ERROR if isinstance(error, kind)), None)
        if what is None or what in error.message:
            raise
        raise type(error)(f"{error.message or error}: {what}") from error


def is_full_disk(error: BaseException) -> bool:
    """Whether something failed because a disk was full, however deep it says so."""
    return NO_SPACE in str(error)

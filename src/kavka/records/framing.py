"""Which schemas the records of a topic have to have, and what is known of those that a batch's records name.

Rule: a record is right if its schema is registered under the subject that the topic's strategy says. What that is, is
not known here: a batch whose schemas nobody knows yet says which to ask for, and is told.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kavka.kernels.framed import FrameScan
from kavka.kernels.layout import KEY_SIDE
from kavka.model.errors import InvalidRecord, KafkaError, NotEnoughReplicas
from kavka.records.rejections import RecordError, RecordsRejected

Buffer = bytes | bytearray | memoryview
NONE: Final[Set[bytes]] = frozenset()
MAX_SCHEMAS: Final = 1_000
"""How many schemas that nobody knew yet a batch may name."""


class SchemasNotKnown(NotEnoughReplicas, code=NotEnoughReplicas.code, retriable=True):
    """Whether the schemas of records are registered cannot be told now; nothing was written."""


class SchemaRules(NamedTuple):
    """By which strategy the subjects of a topic's schemas are named; None: keys, or values, may be anything."""

    key: str | None = None
    value: str | None = None


@dataclass(eq=False, slots=True)
class KnownSchemas:
    """The schemas that are known to be right for a topic, as records name them."""

    topic: str
    rules: SchemaRules
    keys: set[bytes] = field(default_factory=set)
    values: set[bytes] = field(default_factory=set)


class Unknown(NamedTuple):
    """What has to be asked for before a batch can be judged."""

    known: KnownSchemas
    keys: Set[bytes]
    values: Set[bytes]


class Refused(NamedTuple):
    """Those of what was asked for that are not right; the others are in what is known now."""

    keys: Set[bytes] = NONE
    values: Set[bytes] = NONE


class Frames:
    """What a batch's records say of their schemas; walked through again when more is known."""

    __slots__ = ("_asked", "_known", "_scan", "unknown")

    def __init__(self, known: KnownSchemas) -> None:
        self._known = known
        self._asked = 0
        self._scan = self._new(Refused())
        self.unknown: Unknown | None = None
        """What to ask for, at the end of a walk."""

    def _new(self, refused: Refused) -> FrameScan:
        known, rules = self._known, self._known.rules
        return FrameScan(
            None if rules.key is None else known.keys, None if rules.value is None else known.values, *refused
        )

    def feed(self, chunk: Buffer) -> None:
        """Take the next bytes of the records."""
        self._scan.feed(chunk)

    def finish(self) -> None:
        """Be told that there is no more; raises what the client is told if something is wrong."""
        keys, values = self._scan.unknown
        if not (keys or values) or self._asked:  # else those that are wrong are named with what is told of the others
            self._check()
        self._asked += len(keys) + len(values)
        if self._asked > MAX_SCHEMAS:
            raise InvalidRecord(f"the records name more than {MAX_SCHEMAS} schemas")
        self.unknown = Unknown(self._known, keys, values) if keys or values else None

    def _check(self) -> None:
        if self._scan.rejections:
            raise _rejection(self._scan, self._known)

    def told(self, found: Refused | KafkaError) -> bool:
        """Take in what was found; whether the records have to be walked through again. Raises why they need not be."""
        if isinstance(found, KafkaError):
            self._check()
            raise found
        again = bool(self._scan.crowded or self._scan.rejections or found.keys or found.values)
        self.unknown = None
        if again:
            self._scan = self._new(found)
        return again


def _rejection(scan: FrameScan, known: KnownSchemas) -> KafkaError:
    errors: tuple[RecordError, ...] = tuple((index, _fault(side, frame, known)) for index, side, frame in scan.rejected)
    message = f"{scan.rejections} of {scan.seen} records have no schema of the topic's; the first: {errors[0][1]}"
    return RecordsRejected(message, errors)


def _fault(side: int, frame: bytes | None, known: KnownSchemas) -> str:
    part = "key" if side == KEY_SIDE else "value"
    if frame is None:
        return f"the {part} does not begin with the id of a schema, and no header has one"
    import uuid

    name = str(int.from_bytes(frame[1:])) if frame[0] == 0 else str(uuid.UUID(bytes=frame[1:]))
    strategy = known.rules.key if side == KEY_SIDE else known.rules.value
    return f"the {part}'s schema {name} is not registered for {known.topic} ({strategy})"

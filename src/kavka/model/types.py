"""The values every package speaks of: ids, topic-partitions, slices of files."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, Protocol, Self


class Uuid(bytes):
    """A 16-byte id, written as Kafka writes it: 22 characters of unpadded base64url."""

    __slots__ = ()
    ZERO: ClassVar[Uuid]
    METADATA_TOPIC: ClassVar[Uuid]

    def __new__(cls, raw: bytes | bytearray | memoryview) -> Self:
        self = super().__new__(cls, raw)
        if len(self) != 16:
            raise ValueError(f"an id has 16 bytes, not {len(self)}")
        return self

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the 22-character form."""
        if len(text) != 22:
            raise ValueError(f"{text!r} is not an id: 22 base64url characters expected")
        try:
            return cls(base64.urlsafe_b64decode(text + "=="))
        except binascii.Error as error:
            raise ValueError(f"{text!r} is not an id: {error}") from None

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self)[:22].decode("ascii")

    def __repr__(self) -> str:
        return f"Uuid({self!s})"


Uuid.ZERO = Uuid(bytes(16))
Uuid.METADATA_TOPIC = Uuid(bytes(15) + b"\x01")


class TopicPartition(NamedTuple):
    """A partition by its topic's name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")
"""Hosts to listen on that stand for every address of a machine; nobody can connect to one."""


class Endpoint(NamedTuple):
    """A named address that a listener serves or advertises."""

    listener: str
    host: str
    port: int
    security_protocol: str


class PinnedFile(Protocol):
    """A file that stays open while a response still sends from it."""

    def fileno(self) -> int:
        """The descriptor to send from; valid while pinned."""

    def read_at(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""

    def pin(self) -> None:
        """Keep the descriptor open until the matching unpin."""

    def unpin(self) -> None:
        """Give the descriptor back."""


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Bytes of a file that a response carries without reading them."""

    file: PinnedFile
    position: int
    length: int

    def __len__(self) -> int:
        return self.length


Piece = bytes | bytearray | memoryview | FileSlice
"""What a response is made of, in order."""

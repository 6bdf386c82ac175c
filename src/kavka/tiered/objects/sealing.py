"""What a chunk of a segment looks like in the store: compressed if that helps, encrypted if there is a key, checked.

A chunk is zstd or as it is (as it is when that is not larger), then AES-256-GCM under the segment's data key, whose 16
bytes of tag bind it to its segment, part and place. The data key is made for one upload and never used again, so a
counter is a nonce. The manifest keeps it wrapped by a key of the operator. The CRC-32C is of what the store has.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import zstandard
from crc32c import crc32c

from kavka.catalog.segment import RemoteSegment, TopicIdPartition
from kavka.model.errors import InvalidConfig
from kavka.tiered.objects.base import ObjectCorrupt, StoreRefused

TAG_BYTES: Final = 16
KEY_BYTES: Final = 32
_NONCE: Final = Struct(">IQ")
_WRAP_NONCE_BYTES: Final = 12
_MANIFEST_PART: Final = 0xFFFFFFFF
_PLACE: Final = Struct(">16si16sq")


class KeyRing:
    """The operator's keys by name: the current one wraps new segments' keys, the others still open old ones."""

    def __init__(self, current: str, keys: dict[str, bytes]) -> None:
        if current not in keys:
            raise InvalidConfig(f"the current key {current!r} is not among the keys")
        for name, key in keys.items():
            if len(key) != KEY_BYTES:
                raise InvalidConfig(f"the key {name!r} has {len(key)} bytes, not {KEY_BYTES}")
        self.current = current
        self._keys = keys

    @classmethod
    def parse(cls, text: str) -> KeyRing:
        """Read {"current": name, "keys": {name: base64 of 32 bytes}}."""
        try:
            found = json.loads(text)
            keys = {name: b64decode(key, validate=True) for name, key in found["keys"].items()}
            return cls(found["current"], keys)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidConfig(f"the file of encryption keys cannot be read: {error}") from None

    def wrap(self, data_key: bytes, place: bytes) -> dict[str, str]:
        """A data key as a manifest keeps it."""
        nonce = os.urandom(_WRAP_NONCE_BYTES)
        wrapped = _aes(self._keys[self.current]).encrypt(nonce, data_key, place)
        return {"algorithm": "AES-256-GCM", "key": self.current, "data_key": b64encode(nonce + wrapped).decode()}

    def unwrap(self, entry: dict[str, str], place: bytes) -> bytes:
        """The data key of a manifest."""
        key = self._keys.get(entry["key"])
        if key is None:
            raise StoreRefused(f"there is no key {entry['key']!r} to decrypt with")
        try:
            wrapped = b64decode(entry["data_key"], validate=True)
        except ValueError:
            raise ObjectCorrupt("a data key that is not base64") from None
        return _opened(key, wrapped[:_WRAP_NONCE_BYTES], wrapped[_WRAP_NONCE_BYTES:], place)


@dataclass(frozen=True, slots=True)
class Sealing:
    """How new segments are stored."""

    compress: bool = False
    keys: KeyRing | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the store has the very bytes of the files."""
        return not self.compress and self.keys is None


class Sealer:
    """Seals and opens the chunks of one segment."""

    __slots__ = ("_aes", "_compress", "_place")

    def __init__(self, place: bytes, compress: bool, data_key: bytes | None) -> None:
        self._place = place
        self._compress = compress
        self._aes = _aes(data_key) if data_key is not None else None

    def seal(self, part: int, number: int, data: bytes) -> bytes:
        """A chunk as the store has it."""
        if self._compress:
            smaller = zstandard.ZstdCompressor().compress(data)
            data = smaller if len(smaller) < len(data) else data
        if self._aes is None:
            return data
        sealed: bytes = self._aes.encrypt(_NONCE.pack(part, number), data, self._place)
        return sealed

    def open(self, part: int, number: int, stored: bytes, size: int) -> bytes:
        """The chunk of `size` bytes that was sealed; ObjectCorrupt if it is not what was."""
        if self._aes is not None:
            stored = _decrypted(self._aes, _NONCE.pack(part, number), stored, self._place)
        if len(stored) == size:
            return stored
        try:
            data = zstandard.ZstdDecompressor().decompress(stored, max_output_size=size)
        except zstandard.ZstdError as error:
            raise ObjectCorrupt(f"a chunk that does not decompress: {error}") from None
        if len(data) != size:
            raise ObjectCorrupt(f"a chunk of {len(data)} bytes, not {size}")
        return data

    def sign(self, manifest: bytes) -> str | None:
        """What proves that a manifest was written by who had the key; None without encryption."""
        if self._aes is None:
            return None
        tag: bytes = self._aes.encrypt(_NONCE.pack(_MANIFEST_PART, 0), b"", self._place + manifest)
        return b64encode(tag).decode()


def place_of(name: TopicIdPartition, segment: RemoteSegment) -> bytes:
    """What binds a chunk to its segment."""
    return _PLACE.pack(name.topic_id, name.partition, segment.id, segment.start_offset)


def checksum(data: bytes | memoryview) -> int:
    """CRC-32C."""
    return crc32c(data)


def new_data_key() -> bytes:
    """A key for one upload."""
    return os.urandom(KEY_BYTES)


def _aes(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # an extra, and slow to import
    except ImportError:
        raise InvalidConfig("encryption needs cryptography: pip install 'kavka[encryption]'") from None
    return AESGCM(key)


def _opened(key: bytes, nonce: bytes, data: bytes, place: bytes) -> bytes:
    return _decrypted(_aes(key), nonce, data, place)


def _decrypted(aes: Any, nonce: bytes, data: bytes, place: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        found: bytes = aes.decrypt(nonce, data, place)
    except (InvalidTag, ValueError):
        raise ObjectCorrupt("what was encrypted is not what is there, or its key is another") from None
    return found

"""A map from record keys to offsets in a fixed amount of memory: open addressing over 24-byte slots."""

from __future__ import annotations

from hashlib import blake2b

_DIGEST_BYTES = 16
_SLOT_BYTES = 24
_EMPTY = bytes(_DIGEST_BYTES)


class OffsetMap:
    """The last offset of each key. A key is known by a 128-bit digest of it, as in Kafka."""

    __slots__ = ("_slots", "_table", "capacity", "latest_offset", "size")

    def __init__(self, memory_bytes: int, load_factor: float = 0.9) -> None:
        self._slots = max(memory_bytes // _SLOT_BYTES, 2)
        self._table = bytearray(self._slots * _SLOT_BYTES)
        self.capacity = max(int(self._slots * load_factor), 1)
        self.size = 0
        self.latest_offset = -1

    @property
    def full(self) -> bool:
        """Whether another key would make lookups slow."""
        return self.size >= self.capacity

    def put(self, key: bytes, offset: int) -> None:
        """Note a later offset of a key; the map must not be full."""
        digest, at = self._find(key)
        table = self._table
        if table[at : at + _DIGEST_BYTES] == _EMPTY:
            table[at : at + _DIGEST_BYTES] = digest
            self.size += 1
        table[at + _DIGEST_BYTES : at + _SLOT_BYTES] = offset.to_bytes(8, "big")

    def get(self, key: bytes) -> int:
        """The last offset of a key; -1 if it is not here."""
        _, at = self._find(key)
        slot = self._table[at : at + _SLOT_BYTES]
        return int.from_bytes(slot[_DIGEST_BYTES:], "big") if slot[:_DIGEST_BYTES] != _EMPTY else -1

    def _find(self, key: bytes) -> tuple[bytes, int]:
        """A key's digest, and where its slot is, or the empty one it would take."""
        digest = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        slot = int.from_bytes(digest[:8], "big") % self._slots
        table = self._table
        while True:
            at = slot * _SLOT_BYTES
            known = table[at : at + _DIGEST_BYTES]
            if known in (digest, _EMPTY):
                return digest, at
            slot = slot + 1 if slot + 1 < self._slots else 0

"""The buffers that all connections of a server share: one for small frames, a few for large ones."""

from __future__ import annotations

from typing import Final

SHARED_BUFFER_BYTES: Final = 256 * 1024
POOLED_BUFFER_BYTES: Final = 1024 * 1024 + 64 * 1024


class ReceiveBuffers:
    """Where frames are received."""

    def __init__(self, keep: int = 4) -> None:
        self.shared = memoryview(bytearray(SHARED_BUFFER_BYTES))
        self._free: list[bytearray] = []
        self._keep = keep

    def take(self) -> bytearray:
        """A buffer for a frame that does not fit the shared one."""
        return self._free.pop() if self._free else bytearray(POOLED_BUFFER_BYTES)

    def give_back(self, buffer: bytearray) -> None:
        """Keep a pooled buffer for the next large frame."""
        if len(buffer) == POOLED_BUFFER_BYTES and len(self._free) < self._keep:
            self._free.append(buffer)

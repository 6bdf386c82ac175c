"""The buffers that all connections of a server share: one for small frames, a few for large ones."""

from __future__ import annotations

from typing import Final

SHARED_BUFFER_BYTES: Final = 256 * 1024
SCARCE_BYTES: Final = 16 * 1024
"""What is received at once where memory is scarce: so much may be left over of each connection."""
POOLED_BUFFER_BYTES: Final = 1024 * 1024 + 64 * 1024


class ReceiveBuffers:
    """Where frames are received."""

    def __init__(self, keep: int = 4) -> None:
        self.whole = memoryview(bytearray(SHARED_BUFFER_BYTES))
        self.shared = self.whole
        """What those who have nothing yet receive into."""
        self._free: list[bytearray] = []
        self._keep = keep

    def scarce(self, scarce: bool) -> None:
        """Receive little at once, or as much as there is again."""
        self.shared = self.whole[:SCARCE_BYTES] if scarce else self.whole

    def take(self) -> bytearray:
        """A buffer for a frame that does not fit the shared one."""
        return self._free.pop() if self._free else bytearray(POOLED_BUFFER_BYTES)

    def give_back(self, buffer: bytearray) -> None:
        """Keep a pooled buffer for the next large frame."""
        if len(buffer) == POOLED_BUFFER_BYTES and len(self._free) < self._keep:
            self._free.append(buffer)

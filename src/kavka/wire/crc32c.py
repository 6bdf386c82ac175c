"""CRC-32C (Castagnoli): the checksum of record batches."""

from __future__ import annotations

from kavka.kernels.batches import crc32c

__all__ = ["crc32c"]

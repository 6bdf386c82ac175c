"""Record batch headers: read, check, patch. The compiled kernel, or its twin where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.kernels import COMPILED
from kavka.kernels.layout import HEADER_SIZE, LOG_OVERHEAD, PREFIX_SIZE, TRUNCATED

if TYPE_CHECKING or not COMPILED:  # both have one interface; the twin's annotations describe it
    from kavka.kernels.plain_batches import (
        BatchInfo,
        Limits,
        accept,
        crc32c,
        encode_record,
        patch,
        patched_prefix,
        read_records,
        read_some,
        scan,
        scan_prefix,
        set_log_append_time,
    )
    from kavka.kernels.plain_walk import RecordScan
else:
    from kavka.kernels._batches import (
        BatchInfo,
        Limits,
        accept,
        crc32c,
        encode_record,
        patch,
        patched_prefix,
        read_records,
        read_some,
        scan,
        scan_prefix,
        set_log_append_time,
    )
    from kavka.kernels._walk import RecordScan

__all__ = [
    "HEADER_SIZE",
    "LOG_OVERHEAD",
    "PREFIX_SIZE",
    "TRUNCATED",
    "BatchInfo",
    "Limits",
    "RecordScan",
    "accept",
    "crc32c",
    "encode_record",
    "patch",
    "patched_prefix",
    "read_records",
    "read_some",
    "scan",
    "scan_prefix",
    "set_log_append_time",
]

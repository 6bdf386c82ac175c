"""The compiled kernel has its twin's types."""

from kavka.kernels.plain_batches import BatchInfo as BatchInfo
from kavka.kernels.plain_batches import Limits as Limits
from kavka.kernels.plain_batches import accept as accept
from kavka.kernels.plain_batches import crc32c as crc32c
from kavka.kernels.plain_batches import encode_record as encode_record
from kavka.kernels.plain_batches import patch as patch
from kavka.kernels.plain_batches import patched_prefix as patched_prefix
from kavka.kernels.plain_batches import read_records as read_records
from kavka.kernels.plain_batches import read_some as read_some
from kavka.kernels.plain_batches import scan as scan
from kavka.kernels.plain_batches import scan_prefix as scan_prefix
from kavka.kernels.plain_batches import set_log_append_time as set_log_append_time

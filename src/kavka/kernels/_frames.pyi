"""The compiled kernel has its twin's types."""

from kavka.kernels.plain_frames import parse_fetch as parse_fetch
from kavka.kernels.plain_frames import parse_header as parse_header
from kavka.kernels.plain_frames import parse_produce as parse_produce
from kavka.kernels.plain_frames import parse_single as parse_single
from kavka.kernels.plain_frames import split as split

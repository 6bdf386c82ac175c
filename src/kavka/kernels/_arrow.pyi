"""The compiled kernel has its twin's types."""

from kavka.kernels.plain_arrow import RecordColumns as RecordColumns

"""The compiled kernel has its twin's types."""

from kavka.kernels.plain_walk import RecordScan as RecordScan

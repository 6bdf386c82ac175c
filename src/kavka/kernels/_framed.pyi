"""The compiled kernel has its twin's types."""

from kavka.kernels.plain_framed import FrameScan as FrameScan

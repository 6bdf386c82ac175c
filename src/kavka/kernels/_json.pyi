"""The compiled kernel has its twin's types."""

from kavka.kernels.plain_json import JsonColumns as JsonColumns

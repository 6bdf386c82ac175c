"""What goes wrong when metadata records contradict what was written before them."""

from __future__ import annotations


class MetadataError(Exception):
    """A record that cannot be true: the log was written by something else, or by a bug."""

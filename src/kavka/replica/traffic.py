"""What went through a partition: plain numbers that its readers and writers add to, shown as metrics."""

from __future__ import annotations

from typing import Final

COUNTS: Final = (
    "produce_requests",
    "failed_produce_requests",
    "in_bytes",
    "in_messages",
    "fetch_requests",
    "failed_fetch_requests",
    "out_bytes",
    "replication_in_bytes",
    "replication_out_bytes",
)


class Traffic:
    """The traffic of one partition since this node has it; or of some that a topic had here and has no more."""

    __slots__ = COUNTS

    def __init__(self) -> None:
        self.produce_requests = 0
        self.failed_produce_requests = 0
        self.in_bytes = 0
        """What clients and coordinators have appended here."""
        self.in_messages = 0
        self.fetch_requests = 0
        self.failed_fetch_requests = 0
        self.out_bytes = 0
        """What consumers were given."""
        self.replication_in_bytes = 0
        self.replication_out_bytes = 0

    def add(self, other: Traffic) -> None:
        """Count what another has counted."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

"""What went through a partition: plain numbers that its readers and writers add to, shown as metrics."""

from __future__ import annotations

from typing import Final

COUNTS: Final = (
    "produce_requests",
    "failed_produce_requests",
    "in_bytes",
    "in_messages",
    "produce_conversions",
    "fetch_requests",
    "failed_fetch_requests",
    "out_bytes",
    "replication_in_bytes",
    "replication_out_bytes",
)


REQUEST_WORTH: Final = 20_000
"""A small request costs as much as so many bytes of a large one."""


class Traffic:
    """The traffic of one partition since this node has it; or of some that a topic had here and has no more."""

    __slots__ = (*COUNTS, "charged", "cpu_seconds")

    def __init__(self) -> None:
        self.produce_requests = 0
        self.failed_produce_requests = 0
        self.in_bytes = 0
        """What clients and coordinators have appended here."""
        self.in_messages = 0
        self.produce_conversions = 0
        """Records that were compressed anew, for the topic wants another codec than the producer's."""
        self.fetch_requests = 0
        self.failed_fetch_requests = 0
        self.out_bytes = 0
        """What consumers were given."""
        self.replication_in_bytes = 0
        self.replication_out_bytes = 0
        self.cpu_seconds = 0.0
        """What the node's work for a partition cost, where somebody wants to know."""
        self.charged = 0
        """How much of the work that is in there."""

    @property
    def work(self) -> int:
        """How much there was to do, in bytes; a request costs like many of them."""
        moved = self.in_bytes + self.out_bytes + self.replication_in_bytes + self.replication_out_bytes
        return moved + (self.produce_requests + self.fetch_requests) * REQUEST_WORTH

    def add(self, other: Traffic) -> None:
        """Count what another has counted."""
        self.produce_requests += other.produce_requests
        self.failed_produce_requests += other.failed_produce_requests
        self.in_bytes += other.in_bytes
        self.in_messages += other.in_messages
        self.produce_conversions += other.produce_conversions
        self.fetch_requests += other.fetch_requests
        self.failed_fetch_requests += other.failed_fetch_requests
        self.out_bytes += other.out_bytes
        self.replication_in_bytes += other.replication_in_bytes
        self.replication_out_bytes += other.replication_out_bytes

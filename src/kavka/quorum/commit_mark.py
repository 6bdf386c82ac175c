"""How far the metadata was committed when that was last written down, beside the log that has it.

A controller forces what it commits to the disk, so its log can be longer than the mark but never shorter: a shorter one
was cut, emptied or exchanged, and a node that went on with it would forget topics that it has acknowledged, and vote
for others who have. Brokers fetch what they lack, and have no mark.
"""

from __future__ import annotations

import logging
from typing import Final

from kavka.metadata.names import CLUSTER_METADATA
from kavka.model.errors import KafkaStorageError
from kavka.model.types import TopicPartition
from kavka.storage.checkpoint import read_offsets, write_offsets
from kavka.storage.disk import Disk

logger = logging.getLogger(__name__)

FILE: Final = "metadata-commit-checkpoint"
PARTITION: Final = TopicPartition(CLUSTER_METADATA, 0)


class CommitMark:
    """The mark of one metadata directory."""

    def __init__(self, disk: Disk, metadata_dir: str) -> None:
        self._disk = disk
        self._path = f"{metadata_dir}/{FILE}"
        self.offset = 0
        """Everything before it was committed, as far as is written down."""

    def check(self, log_path: str, start: int, end: int, *, accept_loss: bool) -> None:
        """Hold the log against the mark; raises KafkaStorageError if the log lacks what was committed."""
        try:
            self.offset = read_offsets(self._disk, self._path).get(PARTITION, 0)
        except KafkaStorageError as error:
            logger.warning("%s: the committed offset of the metadata log is unknown", error)
            return
        if end >= self.offset:
            return
        lost = f"{log_path} ends at offset {end}, but everything before {self.offset} was committed"
        if not accept_loss:
            raise KafkaStorageError(
                f"{lost}: topics and more would be forgotten. Restore the directory from a copy; or, if other "
                "controllers have the rest, take this one out of the quorum, format it anew and let it join again; or "
                "start once with --accept-loss to give up what is missing"
            )
        logger.warning("%s; starting with what is left (--accept-loss)", lost)
        self.write(max(start, end))

    def write(self, offset: int) -> None:
        """Write down how far the metadata is committed; raises OSError."""
        write_offsets(self._disk, self._path, {PARTITION: offset})
        self.offset = offset

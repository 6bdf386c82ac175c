"""Fetching a snapshot from the leader, window by window, into a file that gets its name only when it is whole."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Final

from kavka.model.errors import KafkaStorageError
from kavka.protocol.schemas.fetch_snapshot import FetchSnapshotResponse, ResponsePartitionSnapshot
from kavka.quorum.metadata_log import MetadataLog
from kavka.quorum.peers import Peers
from kavka.quorum.sending import QuorumRequests
from kavka.quorum.snapshots import Snapshot, SnapshotId, read_snapshot
from kavka.raft.effects import FetchSnapshotFrom
from kavka.raft.messages import SnapshotReply
from kavka.raft.voters import ReplicaKey

MAX_SNAPSHOT_BYTES: Final = 4 << 30
"""What no snapshot of ours comes near: whoever announces more fills the disk."""


class Download:
    """One snapshot on its way here."""

    def __init__(
        self,
        log: MetadataLog,
        id_: SnapshotId,
        effect: FetchSnapshotFrom,
        peers: Peers,
        requests: QuorumRequests,
        me: ReplicaKey,
        max_bytes: int,
    ) -> None:
        self._log = log
        self._id = id_
        self._effect = effect
        self._peers = peers
        self._requests = requests
        self._me = me
        self._max_bytes = max_bytes
        stem = id_.file_name.removesuffix(".checkpoint")
        self._path = f"{log.path}/{stem}-{secrets.token_hex(8)}.checkpoint.part"
        self._file = log.disk.create(self._path)
        self._position = 0
        self._size = -1

    async def windows(self) -> AsyncIterator[SnapshotReply]:
        """Fetch and keep windows until all is there; yields the head of each answer, an error's too.

        Raises KafkaError, TimeoutError or OSError when it cannot go on.
        """
        while self._position != self._size:
            request = self._requests.fetch_snapshot(
                self._me, self._effect.epoch, self._id, self._position, self._max_bytes
            )
            response, _ = await self._peers.call(self._effect.endpoints, request, FetchSnapshotResponse)
            if response.error_code:
                raise KafkaStorageError(f"the leader refuses FetchSnapshot with error {response.error_code}")
            head, window = self._requests.read_snapshot(response)
            if not head.error:
                self._keep(window)
            yield head
            if head.error:
                raise KafkaStorageError(f"the leader answers FetchSnapshot with error {head.error}")

    def _keep(self, window: ResponsePartitionSnapshot) -> None:
        data = window.unaligned_records
        assert not hasattr(data, "fileno"), "what was received is in memory"
        length = len(data)
        if (window.snapshot_id.end_offset, window.snapshot_id.epoch) != self._id:
            raise KafkaStorageError("the leader sent another snapshot than was asked for")
        if window.position != self._position:
            raise KafkaStorageError(f"the leader sent byte {window.position} instead of {self._position}")
        if self._size not in (-1, window.size):
            raise KafkaStorageError(f"the snapshot's size has changed from {self._size} to {window.size}")
        if not self._position < self._position + length <= window.size <= MAX_SNAPSHOT_BYTES:
            raise KafkaStorageError(f"{length} bytes at {self._position} do not fit a size of {window.size}")
        self._size = window.size
        self._file.write_at(self._position, [data], length)  # type: ignore[list-item]
        self._position += length

    def finish(self) -> Snapshot:
        """Check what was fetched, make it durable and give it its name; what it holds. Raises KafkaStorageError.

        May run on any thread.
        """
        disk, path = self._log.disk, f"{self._log.path}/{self._id.file_name}"
        snapshot = read_snapshot(disk, self._path)
        self._file.pin()
        try:
            self._file.sync()
        finally:
            self._file.unpin()
        self._file.rename(path)
        disk.fsync_dir(self._log.path)
        return snapshot

    def discard(self) -> None:
        """Let go of what was not finished."""
        self._file.close()
        self._log.disk.unlink(self._path)

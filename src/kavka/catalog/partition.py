"""The remote segments of one partition: what the copier, readers, expiry and followers ask."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from kavka.catalog.epochs import EpochSegments
from kavka.catalog.lineage import Lineage, epoch_of, is_within, shared_end
from kavka.catalog.segment import DeleteState, Epochs, RemoteSegment, SegmentState, TopicIdPartition, pack, unpack
from kavka.model.types import Uuid


class PartitionSegments:
    """The remote segments of one partition, those being copied and being deleted included."""

    __slots__ = ("_segments", "delete_state", "epochs", "given_up_before", "metadata_partition", "name")

    def __init__(self, name: TopicIdPartition, metadata_partition: int) -> None:
        self.name = name
        self.metadata_partition = metadata_partition
        self.delete_state: DeleteState | None = None
        self.epochs: dict[int, EpochSegments] = {}
        self.given_up_before = 0
        """Where the farthest finished segment ended whose deletion has begun: nobody need look for what it had."""
        self._segments: dict[Uuid, bytes] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSegments) and self._state() == other._state()

    def _state(self) -> tuple[object, ...]:
        return self.name, self.metadata_partition, self.delete_state, self.epochs, self.given_up_before, self._segments

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._segments)

    def __contains__(self, id: Uuid) -> bool:
        return id in self._segments

    def get(self, id: Uuid) -> RemoteSegment | None:
        """The segment of an id, unless it is gone."""
        packed = self._segments.get(id)
        return unpack(id, packed) if packed is not None else None

    def segments(self) -> Iterator[RemoteSegment]:
        """All segments, in no order, unreferenced ones included."""
        return (unpack(id, packed) for id, packed in self._segments.items())

    def segments_of(self, epoch: int) -> list[RemoteSegment]:
        """All segments that have this leader epoch, by their start; unreferenced ones included."""
        of_epoch = self.epochs.get(epoch)
        if of_epoch is None:
            return []
        return sorted((self._known(id) for id in of_epoch), key=lambda segment: segment.start_offset)

    def unreferenced(self) -> list[RemoteSegment]:
        """Segments that no read finds: being copied or deleted, or inside another; whoever cleans up looks here."""
        aside = {id for of_epoch in self.epochs.values() for id in of_epoch.unreferenced}
        if aside:
            for of_epoch in self.epochs.values():
                aside.difference_update(of_epoch.referenced)
        return sorted((self._known(id) for id in aside), key=lambda segment: segment.start_offset)

    def pending(self) -> list[RemoteSegment]:
        """Segments that are being copied, or deleted."""
        found = {id for of_epoch in self.epochs.values() for id in of_epoch.pending}
        return sorted((self._known(id) for id in found), key=lambda segment: segment.start_offset)

    def lookup(self, epoch: int, offset: int) -> RemoteSegment | None:
        """The finished segment that has an offset of a leader epoch."""
        of_epoch = self.epochs.get(epoch)
        found = of_epoch.floor(offset) if of_epoch is not None else None
        return self._known(found) if found is not None else None

    def highest_offset(self, epoch: int) -> int | None:
        """The highest offset of an epoch that was ever copied."""
        of_epoch = self.epochs.get(epoch)
        return of_epoch.highest if of_epoch is not None else None

    def next_with_txn_index(self, epoch: int, offset: int) -> RemoteSegment | None:
        """The first segment of an epoch from an offset on that may have aborted transactions (KIP-1058)."""
        segment = self.lookup(epoch, offset)
        while segment is not None and segment.txn_index_empty:
            segment = self.lookup(epoch, segment.end_offset + 1)
        return segment

    def find(self, offset: int, lineage: Lineage) -> RemoteSegment | None:
        """The segment that has an offset as this log's history wrote it."""
        epoch = epoch_of(offset, lineage)
        return self.lookup(epoch, offset) if epoch is not None else None

    def following(self, segment: RemoteSegment, lineage: Lineage) -> RemoteSegment | None:
        """The segment that goes on where this one ends, in its last epoch or a later one of the lineage."""
        last, offset = segment.epochs[-1][0], segment.end_offset + 1
        found = self.lookup(last, offset)
        for epoch, _ in lineage:
            if found is not None:
                break
            if epoch > last:
                found = self.lookup(epoch, offset)
        return found

    def copied_up_to(self, lineage: Lineage, log_end_offset: int) -> tuple[int, int]:
        """The highest (offset, epoch) of this log's history that was copied; (-1, -1) if nothing was.

        An epoch may have been copied farther than this log has it (another leader's tail that was cut off): that counts
        only up to the epoch's end here.
        """
        end = log_end_offset
        for epoch, start in reversed(lineage):
            highest = self.highest_offset(epoch)
            if highest is not None:
                return min(highest, end - 1), epoch
            end = start
        return -1, -1

    def covered_up_to(self, offset: int, lineage: Lineage, without: Collection[Uuid] = ()) -> int:
        """The first offset from this one on that no finished segment of this log's history has.

        `copied_up_to` tells what was ever copied; this tells what is there, so a copy that got lost is made again.
        """
        while (segment := self.find(offset, lineage)) is not None and segment.id not in without:
            offset = max(offset, shared_end(segment, offset, lineage)) + 1
        return offset

    def has(self, segment: RemoteSegment) -> bool:
        """Whether finished segments have all that one has."""
        return self.covered_up_to(segment.start_offset, segment.epochs) > segment.end_offset

    def reaching_back(self, lineage: Lineage, log_start_offset: int, log_end_offset: int) -> Epochs:
        """A lineage that begins after the log does, with the older epochs that finished segments tell of.

        A log may have lost them in a crash, and must not take its own segments for those of a stranger then. Of two
        epochs that wrote the same offset the newer one counts, unless a segment goes from the older one into the
        lineage; what no segment has is passed over.
        """
        found = list(lineage)
        while True:
            first, start = found[0] if found else (max(self.epochs, default=-1), log_end_offset)
            older = self._written_before(start, first) if start > log_start_offset else None
            if older is None:
                return tuple(found)
            begins = self._known(self.epochs[older].referenced[0])
            known = found[1:] if found and older == first else found
            found = [*(entry for entry in begins.epochs if entry[0] <= older), *known]

    def _written_before(self, offset: int, up_to_epoch: int) -> int | None:
        """The epoch that wrote the last offset before one that finished segments have."""
        best: tuple[int, bool, int] | None = None
        for epoch, of_epoch in self.epochs.items():
            last = of_epoch.last_before(offset) if epoch <= up_to_epoch else None
            if last is not None:
                id, end = last
                goes_on = (up_to_epoch, offset) in self._known(id).epochs
                best = max(best or (-1, False, -1), (end, goes_on, epoch))
        return best[2] if best is not None else None

    def valid(self, lineage: Lineage, log_end_offset: int) -> list[RemoteSegment]:
        """The finished segments of this log's history, by their start, each once; overlapping ones included."""
        found: dict[Uuid, RemoteSegment] = {}
        for epoch, _ in lineage:
            for segment in self.segments_of(epoch):
                if segment.state is SegmentState.COPY_SEGMENT_FINISHED and segment.id not in found:
                    found[segment.id] = segment
        within = (segment for segment in found.values() if is_within(segment, log_end_offset, lineage))
        return sorted(within, key=lambda segment: (segment.start_offset, segment.end_offset))

    def apply(self, segment: RemoteSegment) -> None:
        """Take in a segment's new state; whether it may follow the old one was asked before."""
        match segment.state:
            case SegmentState.COPY_SEGMENT_STARTED:
                self._forget_epochs(segment.id)  # a start that is repeated may name other epochs
                for epoch, _ in segment.epochs:
                    self._epoch(epoch).copy_started(segment.id)
            case SegmentState.COPY_SEGMENT_FINISHED:
                for epoch, start in segment.epochs:
                    self._epoch(epoch).copy_finished(segment.id, start, segment.epoch_end(epoch))
            case SegmentState.DELETE_SEGMENT_STARTED:
                if self._known(segment.id).state is SegmentState.COPY_SEGMENT_FINISHED:
                    self.given_up_before = max(self.given_up_before, segment.end_offset + 1)
                for epoch, start in segment.epochs:
                    self._epoch(epoch).delete_started(segment.id, start)
            case SegmentState.DELETE_SEGMENT_FINISHED:
                self._forget_epochs(segment.id)
                del self._segments[segment.id]
                return
        self._segments[segment.id] = pack(segment)

    def packed(self) -> Iterable[tuple[Uuid, bytes]]:
        """All segments as they are kept, for a snapshot: nothing is unpacked."""
        return self._segments.items()

    def restore(self, id: Uuid, packed: bytes) -> None:
        """Put a segment of a snapshot back; its epochs are put back apart."""
        self._segments[id] = packed

    def restore_unreferenced(self, epoch: int, id: Uuid) -> None:
        """Put back, in an epoch, a segment of a snapshot that is not read."""
        segment, of_epoch = self._known(id), self._epoch(epoch)
        if segment.state is SegmentState.COPY_SEGMENT_FINISHED:
            of_epoch.aside[id] = dict(segment.epochs)[epoch], segment.epoch_end(epoch)
        else:
            of_epoch.pending[id] = None

    def _forget_epochs(self, id: Uuid) -> None:
        known = self.get(id)
        for epoch, start in known.epochs if known is not None else ():
            self._epoch(epoch).forget(id, start)

    def _epoch(self, epoch: int) -> EpochSegments:
        found = self.epochs.get(epoch)
        if found is None:
            found = self.epochs[epoch] = EpochSegments()
        return found

    def _known(self, id: Uuid) -> RemoteSegment:
        return unpack(id, self._segments[id])

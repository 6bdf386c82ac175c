"""Putting compacted segments in the place of those they were made of, so that a crash at any step does no harm.

The new files are complete and durable as `.cleaned`. They become `.swap` (from here on the change will happen, now or
at the next start), the old segments become `.deleted`, and the new ones lose their suffix.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kavka.storage import files
from kavka.storage.disk import Disk
from kavka.storage.files import FileName, file_name, parse_file_name
from kavka.storage.recovery import next_offset_of
from kavka.storage.segment import Segment


def finish_interrupted(disk: Disk, directory: str, names: Iterable[str]) -> list[str]:
    """Undo or complete what a stop cut short in a log's directory; says what was done, one line each."""
    parsed = [name for name in map(parse_file_name, names) if name is not None and name.suffix]
    done = []
    for name in _with_suffix(parsed, files.DELETED):
        disk.unlink(_path(directory, name))
    cleaned = _with_suffix(parsed, files.CLEANED)
    swaps = _with_suffix(parsed, files.SWAP)
    # A group that is partly .cleaned and partly .swap was not decided yet: its old segments are all there. Its .swap
    # files go first, because without any .cleaned file beside them they would look decided.
    undecided = min((name.offset for name in cleaned), default=None)
    for name in [*(swap for swap in swaps if undecided is not None and swap.offset >= undecided), *cleaned]:
        disk.unlink(_path(directory, name))
    if cleaned:
        done.append(f"{directory}: removed what an interrupted compaction had written")
    decided = sorted({name.offset for name in swaps if undecided is None or name.offset < undecided})
    for base_offset in decided:
        finish_swap(disk, directory, base_offset)
        done.append(f"{directory}: completed the swap of the compacted segment {base_offset}")
    if parsed:
        disk.fsync_dir(directory)
    return done


def finish_swap(disk: Disk, directory: str, base_offset: int) -> None:
    """Complete a decided swap: remove the segments that the new one covers, then take its suffix off."""
    swap_log = f"{directory}/{file_name(base_offset, files.LOG, files.SWAP)}"
    # The index is the first to lose its suffix: once it has, the old segments are gone.
    if disk.exists(f"{directory}/{file_name(base_offset, files.INDEX, files.SWAP)}"):
        segment = Segment(disk, disk.file(swap_log), base_offset, disk.size(swap_log), 0)
        end = max(next_offset_of(segment) or 0, base_offset + 1)
        for name in disk.listdir(directory):
            parsed = parse_file_name(name)
            if parsed is None or parsed.suffix or parsed.kind not in files.SEGMENT_KINDS:
                continue
            if base_offset <= parsed.offset < end:
                disk.unlink(f"{directory}/{name}")
    for kind in (files.INDEX, files.TIME_INDEX, files.TXN_INDEX, files.LOG):
        source = f"{directory}/{file_name(base_offset, kind, files.SWAP)}"
        if disk.exists(source):
            disk.rename(source, source.removesuffix(files.SWAP))


def decide_swap(new: Segment) -> None:
    """From `.cleaned` to `.swap`: after this the new segment replaces the old ones, come what may."""
    new.change_suffix(files.SWAP)


def complete_swap(new: Segment, old: Sequence[Segment]) -> None:
    """Rename the old segments away and take the new one's suffix off."""
    for segment in old:
        segment.change_suffix(files.DELETED)
    new.change_suffix("")


def _with_suffix(names: Iterable[FileName], suffix: str) -> list[FileName]:
    return [name for name in names if name.suffix == suffix]


def _path(directory: str, name: FileName) -> str:
    return f"{directory}/{file_name(*name)}"

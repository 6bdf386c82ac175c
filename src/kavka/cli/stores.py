"""What commands have in common that look into an object store."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.options import key_values
from kavka.cli.output import CommandError

if TYPE_CHECKING:
    from kavka.tiered.objects.segments import SegmentStore

URL_HELP = "The store, as kavka.remote.storage.url names it: file:///dir, s3://bucket/prefix."
StoreOptions = Annotated[
    list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="More about the store; may be repeated.")
]
KeysFile = Annotated[Path | None, typer.Option("--keys-file", help="The keys of encrypted segments.")]


@contextmanager
def opened(url: str, options: list[str] | None, keys_file: Path | None) -> Iterator[SegmentStore]:
    """The segments of a store; raises CommandError for what goes wrong with it."""
    from kavka.tiered.objects.base import StoreError
    from kavka.tiered.objects.opening import open_segments
    from kavka.tiered.objects.sealing import KeyRing, Sealing

    given = key_values(options or (), "--option")
    keys = KeyRing.parse(keys_file.read_text(encoding="utf-8")) if keys_file is not None else None
    try:
        with ThreadPoolExecutor(4) as threads:
            yield open_segments(url, threads, options=given, sealing=Sealing(keys=keys))
    except StoreError as error:
        raise CommandError(f"{url}: {error}") from None


async def download(store: SegmentStore, wanted: str, folder: Path) -> Path:
    """A part of a remote segment (`ID`, its log, or `ID.index`, ...) as a file, named as in a directory of segments."""
    from kavka.tiered.objects.manifest import Part

    id, _, suffix = wanted.partition(".")
    try:
        part = Part(suffix or Part.LOG.value)
    except ValueError:
        raise CommandError(f"{wanted}: a segment has {', '.join(each.value for each in Part)}") from None
    manifest = await store.find_manifest(id)
    if manifest is None:
        raise CommandError(f"no remote segment {id} has a manifest in the store")
    if part not in manifest.parts:
        raise CommandError(f"the remote segment {id} has no {part.value}")
    path = folder / f"{manifest.segment.start_offset:020d}-{id}.{part.value}"
    with path.open("wb") as file:
        for number in range(len(manifest.parts[part].stored)):
            file.writelines(await store.read_chunks(manifest, part, number, 1))
    return path

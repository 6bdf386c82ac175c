"""Which store a URL names, and how segments are kept in it."""

from __future__ import annotations

from concurrent.futures import Executor
from urllib.parse import unquote, urlsplit

from kavka.model.errors import InvalidConfig
from kavka.tiered.objects.base import ObjectStore
from kavka.tiered.objects.cloud import open_cloud
from kavka.tiered.objects.guard import GuardedStore, StoreLimits, StoreMetrics
from kavka.tiered.objects.layout import KafkaLayout, Layout, ObjectLayout
from kavka.tiered.objects.local import LocalStore
from kavka.tiered.objects.sealing import Sealing
from kavka.tiered.objects.segments import CHUNK_BYTES, SegmentStore

CLOUDS = ("s3", "gs", "az", "memory")


def open_store(url: str, threads: Executor, options: dict[str, str] | None = None) -> ObjectStore:
    """The bare store of a `kavka.remote.storage.url`; InvalidConfig if there is none."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise InvalidConfig(f"{url} names no directory: file:///dir is meant")
        return LocalStore(unquote(parts.path), threads)
    if parts.scheme in CLOUDS:
        return open_cloud(url, options)
    raise InvalidConfig(f"{url} names no object store: file, {', '.join(CLOUDS)} are known")


def layouts_of(url: str, sealing: Sealing) -> list[Layout]:
    """How segments are laid out in a store; in a directory as a JVM broker has them, unless it could not read them."""
    if urlsplit(url).scheme != "file":
        return [ObjectLayout()]
    return [KafkaLayout(), ObjectLayout()] if sealing.is_plain else [ObjectLayout(), KafkaLayout()]


def open_segments(
    url: str,
    threads: Executor,
    *,
    options: dict[str, str] | None = None,
    sealing: Sealing | None = None,
    limits: StoreLimits | None = None,
    metrics: StoreMetrics | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    bare: ObjectStore | None = None,
) -> SegmentStore:
    """The segments of a `kavka.remote.storage.url`, each call within our own limits; `bare` stands for its store."""
    sealing = sealing or Sealing()
    store = GuardedStore(bare if bare is not None else open_store(url, threads, options), limits, metrics)
    return SegmentStore(store, layouts_of(url, sealing), threads, sealing, chunk_bytes)

"""S3, Google Cloud Storage, Azure and memory as object stores, through obstore (the extra `kavka[cloud]`).

Known of obstore 0.12, and kept from whoever calls: a range that starts at or after the end is a GenericError (several
ranges: a panic, which is a BaseException, so several are never asked for); one that ends after it is cut; deleting a
missing key is an error on some stores; an option that Google's does not know is a panic. Its own retries are off:
`guard` has ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from kavka.model.errors import InvalidConfig
from kavka.tiered.objects.base import (
    Content,
    ObjectCorrupt,
    ObjectInfo,
    ObjectNotFound,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)

try:
    import obstore
    from obstore import exceptions as failures
    from obstore.store import from_url
except ImportError:  # an extra; `open_cloud` says so
    obstore = None  # type: ignore[assignment]

_PAGE = 1000
_PART_BYTES = 8 << 20
_PARTS_AT_ONCE = 4
_RETRIES_OFF = {"max_retries": 0, "retry_timeout": timedelta(seconds=1)}
_FULL_SIGNS = ("QuotaExceeded", "StorageFull", "EntityTooLarge", "InsufficientStorage", " 507 ")
_REFUSED_SIGNS = ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "RequestTimeTooSkewed", "NoSuchBucket")
_OURS = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)


def open_cloud(url: str, options: dict[str, str] | None = None) -> CloudStore:
    """The store of an s3://, gs://, az:// or memory:// URL; credentials are found where its own tools find them."""
    if obstore is None:
        raise InvalidConfig(f"{url} needs obstore: pip install 'kavka[cloud]'")
    try:
        if url.startswith("memory:"):
            return CloudStore(from_url("memory:///"))
        config = dict(options or {})
        plain = config.pop("allow_http", "false") == "true" or config.get("endpoint", "").startswith("http://")
        client: Any = {"timeout": timedelta(minutes=10), "connect_timeout": timedelta(seconds=5), "allow_http": plain}
        made: Any = from_url(url, config=config or None, client_options=client, retry_config=_RETRIES_OFF)  # type: ignore[call-overload]
    except _OURS:
        raise
    except BaseException as error:  # an option that it does not know is a panic, for some clouds
        raise InvalidConfig(f"{url} cannot be opened: {error}") from error
    return CloudStore(made)


class CloudStore:
    """An obstore store."""

    def __init__(self, store: Any) -> None:
        self._store = store

    async def put(self, key: str, content: Content) -> int:
        """Store an object, a large one in several parts at once."""
        size = 0

        async def counted() -> Any:
            nonlocal size
            async for chunk in content.chunks():
                size += len(chunk)
                yield chunk

        with _typed_errors():
            if content.size_hint <= _PART_BYTES:
                data = b"".join([chunk async for chunk in counted()])
                await obstore.put_async(self._store, key, data)
            else:
                await obstore.put_async(
                    self._store, key, counted(), chunk_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE
                )
        return size

    async def read(self, key: str, start: int, length: int) -> bytes:
        """Exactly these bytes of an object."""
        with _typed_errors():
            data = bytes(await obstore.get_range_async(self._store, key, start=start, length=length))
        if len(data) != length:
            raise ObjectCorrupt(f"{key} has {len(data)} bytes from {start} on, not {length}")
        return data

    async def head(self, key: str) -> ObjectInfo:
        """Size and time of an object."""
        with _typed_errors():
            return _info(await obstore.head_async(self._store, key))

    async def list_page(self, prefix: str, after: str) -> list[ObjectInfo]:
        """Some objects in a folder, by key."""
        with _typed_errors():
            pages = obstore.list(self._store, prefix or None, offset=after or None, chunk_size=_PAGE)
            async for page in pages:
                if found := [info for info in map(_info, page) if info.key > after]:  # some servers ignore the offset
                    return sorted(found)
        return []

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove objects one after another."""
        for key in keys:
            with suppress(ObjectNotFound), _typed_errors():
                await obstore.delete_async(self._store, key)

    async def abandoned(self, *, remove: bool) -> list[ObjectInfo]:
        """Nothing: the parts of a large object that was cut off are the bucket's own rules' to remove."""
        return []


def _info(meta: Any) -> ObjectInfo:
    return ObjectInfo(meta["path"], meta["size"], int(meta["last_modified"].timestamp() * 1000))


@contextmanager
def _typed_errors() -> Iterator[None]:
    try:
        yield
    except (*_OURS, StoreError):
        raise
    except BaseException as error:  # a panic is no Exception
        raise _typed(error) from error


def _typed(error: BaseException) -> StoreError:
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in text:
        return ObjectNotFound(text)
    if any(sign in text for sign in _FULL_SIGNS):
        return StoreFull(text)
    refused = (failures.PermissionDeniedError, failures.UnauthenticatedError, failures.InvalidPathError)
    if isinstance(error, refused) or any(sign in text for sign in _REFUSED_SIGNS):
        return StoreRefused(text)
    return StoreUnavailable(text)

"""The registry for code without asyncio: requests are made by the thread that asks, one at a time."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from kavka.client.registry import api
from kavka.client.registry.setup import options_of
from kavka.client.registry.values import RegisteredSchema, Schema
from kavka.client.registry.ways import Inline, now

T = TypeVar("T")


class SchemaRegistry:
    """A client of a schema registry, for code that has no event loop; threads may share it.

    ```python
    with SchemaRegistry("http://127.0.0.1:8081") as registry:
        registered = registry.register("orders-value", Schema('{"type": "string"}'))
        print(registered.id, registry.schema(registered.id).text)
    ```
    """

    def __init__(
        self,
        urls: str | Iterable[str],
        *,
        auth: tuple[str, str] | None = None,
        token: str | None = None,
        tls: ssl.SSLContext | Mapping[str, str] | None = None,
        timeout_ms: int = api.DEFAULT_TIMEOUT_MS,
        cached: int = api.DEFAULT_CACHED,
        latest_ttl_ms: int = api.DEFAULT_LATEST_TTL_MS,
    ) -> None:
        """As that for asyncio."""
        self.inner = api.SchemaRegistry(
            urls,
            auth=auth,
            token=token,
            tls=tls,
            timeout_ms=timeout_ms,
            cached=cached,
            latest_ttl_ms=latest_ttl_ms,
            way=Inline,
        )
        """What serializers and deserializers are given, whose coroutines `run` then runs."""
        self._lock = threading.RLock()

    @classmethod
    def of(
        cls,
        properties: Mapping[str, Any],
        *,
        timeout_ms: int = api.DEFAULT_TIMEOUT_MS,
        cached: int = api.DEFAULT_CACHED,
        latest_ttl_ms: int = api.DEFAULT_LATEST_TTL_MS,
    ) -> Self:
        """The registry that Confluent's properties name (`schema.registry.url`, ...); raises SettingError."""
        return cls(**options_of(properties), timeout_ms=timeout_ms, cached=cached, latest_ttl_ms=latest_ttl_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; a request after that opens another."""
        with self._lock:
            self.inner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine that asks this registry and nobody else, such as a serializer's."""
        with self._lock:
            return now(work)

    def schema(self, id_: int, *, subject: str = "", form: str = "") -> Schema:
        """The schema with an id, in the context of a subject if one is given; raises SchemaNotFound.

        The `form` of a Protobuf schema is text, or `"serialized"` for its file descriptor in base64.
        """
        return self.run(self.inner.schema(id_, subject=subject, form=form))

    def schema_of_guid(self, guid: str, *, form: str = "") -> Schema:
        """The schema with a GUID, as records name it that have it in a header; raises SchemaNotFound."""
        return self.run(self.inner.schema_of_guid(guid, form=form))

    def id_of_guid(self, guid: str, context: str = "") -> int:
        """The id of the schema with a GUID in a context (`:.name:`), or in the default one; raises SchemaNotFound."""
        return self.run(self.inner.id_of_guid(guid, context))

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """Register a schema under a subject, or find it there; raises IncompatibleSchema."""
        return self.run(self.inner.register(subject, schema, normalize=normalize))

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """Find a schema under a subject; raises SchemaNotFound."""
        return self.run(self.inner.lookup(subject, schema, normalize=normalize))

    def latest(self, subject: str, *, form: str = "") -> RegisteredSchema:
        """The latest version of a subject, as of up to `latest_ttl_ms` ago; raises SchemaNotFound."""
        return self.run(self.inner.latest(subject, form=form))

    def version(self, subject: str, version: int, *, form: str = "") -> RegisteredSchema:
        """A version of a subject, deleted ones as well, since others may refer to them; raises SchemaNotFound."""
        return self.run(self.inner.version(subject, version, form=form))

    def subjects(self, *, prefix: str = "", deleted: bool = False) -> list[str]:
        """The names of all subjects, or of those that begin so."""
        return self.run(self.inner.subjects(prefix=prefix, deleted=deleted))

    def subjects_of(self, id_: int) -> list[str]:
        """The subjects that have the schema with an id; raises SchemaNotFound."""
        return self.run(self.inner.subjects_of(id_))

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject; raises SchemaNotFound."""
        return self.run(self.inner.versions(subject))

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete a subject, for good only if it was deleted before; the versions that it had."""
        return self.run(self.inner.delete_subject(subject, permanent=permanent))

    def delete_version(self, subject: str, version: int, *, permanent: bool = False) -> None:
        """Delete a version, for good only if it was deleted before."""
        self.run(self.inner.delete_version(subject, version, permanent=permanent))

    def incompatibilities(self, subject: str, schema: Schema, version: int | str = "latest") -> list[str]:
        """What speaks against registering a schema; nothing does if the list is empty."""
        return self.run(self.inner.incompatibilities(subject, schema, version))

    def compatibility(self, subject: str = "") -> str:
        """The level in force for a subject, or for those that have none of their own."""
        return self.run(self.inner.compatibility(subject))

    def set_compatibility(self, level: str, subject: str = "") -> None:
        """Set the level of a subject, or of those that have none of their own."""
        self.run(self.inner.set_compatibility(level, subject))

    def forget(self) -> None:
        """Ask again for everything."""
        with self._lock:
            self.inner.forget()

"""The registry as programs ask it: what is answered once is remembered, since a schema never changes under its id."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote, urlencode

from kavka.client.registry.cache import Cache
from kavka.client.registry.errors import RegistryUnreachable, SchemaNotFound, SchemaRegistryError, error_of
from kavka.client.registry.http import addresses_of
from kavka.client.registry.setup import options_of, trust_of
from kavka.client.registry.values import RegisteredSchema, Schema, context_of
from kavka.client.registry.ways import Threaded, Way

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

DEFAULT_TIMEOUT_MS: Final = 10_000
DEFAULT_CACHED: Final = 1_000
DEFAULT_LATEST_TTL_MS: Final = 60_000
UNKNOWN_SECONDS: Final = 5.0
"""How long an id that there is not is not asked for again: a topic full of foreign bytes asks once, not per record."""
_MESSAGE_CHARACTERS: Final = 1_000


class SchemaRegistry:
    """A client of a schema registry, for asyncio.

    ```python
    async with SchemaRegistry("http://127.0.0.1:8081") as registry:
        registered = await registry.register("orders-value", Schema('{"type": "string"}'))
        print(registered.id, (await registry.schema(registered.id)).text)
    ```
    """

    def __init__(
        self,
        urls: str | Iterable[str],
        *,
        auth: tuple[str, str] | None = None,
        token: str | None = None,
        tls: ssl.SSLContext | Mapping[str, str] | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        cached: int = DEFAULT_CACHED,
        latest_ttl_ms: int = DEFAULT_LATEST_TTL_MS,
        way: Callable[..., Way] = Threaded,
    ) -> None:
        """Several URLs are of one registry: they are asked in turn until one answers.

        `auth` is a name and a password, which a URL may have as well, `token` a bearer's. `tls` is a context or Kafka's
        `ssl.*` settings, for https. `timeout_ms` is for a request with all its retries; `cached` is how many schemas
        are remembered, and `latest_ttl_ms` how long it is believed which version of a subject is the latest.
        """
        self._way = way(addresses_of(urls, auth, token), trust_of(tls), timeout_ms / 1000)
        self._latest_seconds = latest_ttl_ms / 1000
        self._by_id: Cache[tuple[int, str, str], Schema] = Cache(cached)
        self._by_guid: Cache[tuple[str, str], Schema] = Cache(cached)
        self._by_schema: Cache[tuple[str, Schema, bool, bool], RegisteredSchema] = Cache(cached)
        self._by_version: Cache[tuple[str, int, str], RegisteredSchema] = Cache(cached)
        self._latest: Cache[tuple[str, str], RegisteredSchema] = Cache(cached)
        self._unknown: Cache[tuple[int, str, str] | tuple[str, str], SchemaNotFound] = Cache(cached)

    @classmethod
    def of(
        cls,
        properties: Mapping[str, Any],
        *,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        cached: int = DEFAULT_CACHED,
        latest_ttl_ms: int = DEFAULT_LATEST_TTL_MS,
    ) -> Self:
        """The registry that Confluent's properties name (`schema.registry.url`, ...); raises SettingError."""
        return cls(**options_of(properties), timeout_ms=timeout_ms, cached=cached, latest_ttl_ms=latest_ttl_ms)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; a request after that opens another."""
        self._way.close()

    # -- schemas ------------------------------------------------------------------------------

    async def schema(self, id_: int, *, subject: str = "", form: str = "") -> Schema:
        """The schema with an id, in the context of a subject if one is given; raises SchemaNotFound.

        The `form` of a Protobuf schema is text, or `"serialized"` for its file descriptor in base64.
        """
        query = {**({"subject": subject} if subject else {}), **_form(form)}
        found = await self._looked_up(self._by_id, (id_, subject, form), f"schemas/ids/{id_}", query)
        return found.within(context_of(subject))

    async def schema_of_guid(self, guid: str, *, form: str = "") -> Schema:
        """The schema with a GUID, as records name it that have it in a header; raises SchemaNotFound."""
        path = f"schemas/guids/{quote(guid, safe='')}"
        return await self._looked_up(self._by_guid, (guid, form), path, _form(form))

    async def id_of_guid(self, guid: str, context: str = "") -> int:
        """The id of the schema with a GUID in a context (`:.name:`), or in the default one; raises SchemaNotFound."""
        said = await self._turned("GET", f"schemas/guids/{quote(guid, safe='')}/ids")
        wanted = context.strip(":") or "."
        ids = _understood(lambda answer: [int(each["id"]) for each in answer if each["context"] == wanted], said)
        if not ids:
            raise SchemaNotFound(f"the schema {guid} is not in the context {wanted}")
        return min(ids)

    async def _looked_up(self, cache: Cache[Any, Schema], key: Any, path: str, query: Mapping[str, str]) -> Schema:
        async def ask() -> Schema:
            unknown = self._unknown.get(key, time.monotonic())
            if unknown is not None:
                raise error_like(unknown)
            try:
                return _understood(Schema.read, await self._json("GET", path, query=query))
            except SchemaNotFound as error:
                self._unknown.put(key, error, time.monotonic() + UNKNOWN_SECONDS)
                raise

        return await self._once(cache, key, ask)

    async def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """Register a schema under a subject, or find it there; raises IncompatibleSchema."""
        key = (subject, schema, normalize, True)

        async def ask() -> RegisteredSchema:
            path = f"subjects/{quote(subject, safe='')}/versions"
            said = await self._json("POST", path, schema.written(), _flags(normalize=normalize))
            return _understood(lambda answer: _registered(subject, schema, answer), said)

        return await self._once(self._by_schema, key, ask)

    async def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """Find a schema under a subject; raises SchemaNotFound."""
        key = (subject, schema, normalize, False)

        async def ask() -> RegisteredSchema:
            path = f"subjects/{quote(subject, safe='')}"
            said = await self._json("POST", path, schema.written(), _flags(normalize=normalize))
            return _understood(lambda answer: _registered(subject, schema, answer), said)

        return await self._once(self._by_schema, key, ask)

    async def latest(self, subject: str, *, form: str = "") -> RegisteredSchema:
        """The latest version of a subject, as of up to `latest_ttl_ms` ago; raises SchemaNotFound."""
        key = subject, form
        return await self._once(
            self._latest, key, lambda: self._version(subject, "latest", _form(form)), self._latest_seconds
        )

    async def version(self, subject: str, version: int, *, form: str = "") -> RegisteredSchema:
        """A version of a subject, deleted ones as well, since others may refer to them; raises SchemaNotFound."""
        key, query = (subject, version, form), {"deleted": "true", **_form(form)}
        return await self._once(self._by_version, key, lambda: self._version(subject, str(version), query))

    async def _version(self, subject: str, version: str, query: Mapping[str, str]) -> RegisteredSchema:
        path = f"subjects/{quote(subject, safe='')}/versions/{version}"
        said = await self._json("GET", path, query=query)
        context = context_of(subject)
        return _understood(lambda answer: _registered(subject, Schema.read(answer).within(context), answer), said)

    # -- subjects -----------------------------------------------------------------------------

    async def subjects(self, *, prefix: str = "", deleted: bool = False) -> list[str]:
        """The names of all subjects, or of those that begin so."""
        query = {**_flags(deleted=deleted), **({"subjectPrefix": prefix} if prefix else {})}
        return [str(each) for each in await self._turned("GET", "subjects", query=query)]

    async def subjects_of(self, id_: int) -> list[str]:
        """The subjects that have the schema with an id; raises SchemaNotFound."""
        return [str(each) for each in await self._turned("GET", f"schemas/ids/{id_}/subjects")]

    async def versions(self, subject: str) -> list[int]:
        """The versions of a subject; raises SchemaNotFound."""
        return [int(each) for each in await self._turned("GET", f"subjects/{quote(subject, safe='')}/versions")]

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete a subject, for good only if it was deleted before; the versions that it had."""
        self.forget()
        path = f"subjects/{quote(subject, safe='')}"
        return [int(each) for each in await self._turned("DELETE", path, query=_flags(permanent=permanent))]

    async def delete_version(self, subject: str, version: int, *, permanent: bool = False) -> None:
        """Delete a version, for good only if it was deleted before."""
        self.forget()
        path = f"subjects/{quote(subject, safe='')}/versions/{version}"
        await self._turned("DELETE", path, query=_flags(permanent=permanent))

    async def incompatibilities(self, subject: str, schema: Schema, version: int | str = "latest") -> list[str]:
        """What speaks against registering a schema; nothing does if the list is empty."""
        path = f"compatibility/subjects/{quote(subject, safe='')}/versions/{version}"
        said = await self._turned("POST", path, schema.written(), {"verbose": "true"})
        if said.get("is_compatible"):
            return []
        return [str(each) for each in said.get("messages") or ()] or ["the registry does not say why"]

    async def compatibility(self, subject: str = "") -> str:
        """The level in force for a subject, or for those that have none of their own."""
        path, query = ("config", {})
        if subject:
            path, query = f"config/{quote(subject, safe='')}", {"defaultToGlobal": "true"}
        said = await self._turned("GET", path, query=query)
        return str(said.get("compatibilityLevel"))

    async def set_compatibility(self, level: str, subject: str = "") -> None:
        """Set the level of a subject, or of those that have none of their own."""
        path = f"config/{quote(subject, safe='')}" if subject else "config"
        await self._turned("PUT", path, {"compatibility": level})

    def forget(self) -> None:
        """Ask again for everything."""
        for cache in (self._by_id, self._by_guid, self._by_schema, self._by_version, self._latest, self._unknown):
            cache.clear()

    # -- requests -----------------------------------------------------------------------------

    async def _once(
        self, cache: Cache[K, V], key: K, ask: Callable[[], Awaitable[V]], seconds: float | None = None
    ) -> V:
        """Ask for something, unless somebody has before, or just now."""
        found = cache.get(key, 0.0 if seconds is None else time.monotonic())
        if found is not None:
            return found
        async with self._way.turn():
            found = cache.get(key, time.monotonic())
            if found is not None:
                return found
            value = await ask()
            return cache.put(key, value, None if seconds is None else time.monotonic() + seconds)

    async def _turned(self, method: str, path: str, body: Any = None, query: Mapping[str, str] | None = None) -> Any:
        async with self._way.turn():
            return await self._json(method, path, body, query)

    async def _json(self, method: str, path: str, body: Any = None, query: Mapping[str, str] | None = None) -> Any:
        if query:
            path = f"{path}?{urlencode(query)}"
        data = None if body is None else json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        answer = await self._way.ask(method, path, data)
        try:
            said = json.loads(answer.body)
        except ValueError:
            said = None
        if answer.status == 200 and said is not None:
            return said
        if not isinstance(said, dict) or "message" not in said:
            raise _foreign(answer.status)
        code = said.get("error_code")
        message = " ".join(str(said["message"]).split())[:_MESSAGE_CHARACTERS]
        raise error_of(answer.status, code if isinstance(code, int) else 0, message)


def error_like(error: SchemaNotFound) -> SchemaNotFound:
    """The same error once more, without where it came from."""
    return SchemaNotFound(str(error), error.status, error.code)


def _foreign(status: int) -> SchemaRegistryError:
    if status in (401, 403):
        reason = "the name and password are wrong" if status == 401 else "it is not allowed"
        return SchemaRegistryError(f"the schema registry refuses the request: {reason} ({status})", status)
    if status >= 500:
        return RegistryUnreachable(f"the schema registry answers with status {status}: try again later", status)
    return SchemaRegistryError(f"what answers with status {status} is no schema registry: check its URL", status)


def _understood(read: Callable[[Any], V], said: Any) -> V:
    try:
        return read(said)
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise SchemaRegistryError(f"the schema registry's answer cannot be read: {error}") from None


def _registered(subject: str, schema: Schema, said: Mapping[str, Any]) -> RegisteredSchema:
    version, guid = said.get("version"), said.get("guid")
    return RegisteredSchema(
        subject,
        int(said["id"]),
        schema,
        None if version is None else int(version),
        None if guid is None else str(guid),
    )


def _form(form: str) -> dict[str, str]:
    return {"format": form} if form else {}


def _flags(**flags: bool) -> dict[str, str]:
    return {name: "true" for name, value in flags.items() if value}

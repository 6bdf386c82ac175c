"""The requests of the registry's clients: what they need a right for, and who answers them.

A subject is a topic's, by the usual names (`orders-value` is of the topic `orders`): who may describe, write or delete
the topic may read, register and delete its schemas.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from kavka.broker.audited import Item
from kavka.broker.registry_login import Refused, RegistryLogin
from kavka.coordinator.registry.calls import AMONG_NODES, Call, RegistryError, Reply, Rest, call_of
from kavka.coordinator.registry.reading import scope_of
from kavka.coordinator.registry.state import qualified, unqualified
from kavka.model.errors import KafkaStorageError
from kavka.net.server import Served
from kavka.net.session import Guard, Session
from kavka.pacing.turn import Turn
from kavka.protocol.registry import ApiKey
from kavka.runtime.registry import RegistryService
from kavka.security.acl import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from kavka.broker.auditing import Audit

_ABOUT_SUBJECT: Final = {
    "register": Operation.WRITE,
    "look_up": Operation.DESCRIBE,
    "check": Operation.DESCRIBE,
    "check_all": Operation.DESCRIBE,
    "list_versions": Operation.DESCRIBE,
    "version": Operation.DESCRIBE,
    "text_of_version": Operation.DESCRIBE,
    "referenced_by": Operation.DESCRIBE,
    "latest_with_metadata": Operation.DESCRIBE,
    "delete_subject": Operation.DELETE,
    "delete_version": Operation.DELETE,
}
_SETTINGS: Final = {
    "config": Operation.DESCRIBE_CONFIGS,
    "mode": Operation.DESCRIBE_CONFIGS,
    "set_config": Operation.ALTER_CONFIGS,
    "set_mode": Operation.ALTER_CONFIGS,
    "delete_config": Operation.ALTER_CONFIGS,
    "delete_mode": Operation.ALTER_CONFIGS,
}
_CHANGES: Final = frozenset(
    {"register", "delete_subject", "delete_version", "set_config", "set_mode", "delete_config", "delete_mode"}
)
_BY_ID: Final = frozenset({"schema_by_id", "text_by_id", "subjects_of_id", "versions_of_id"})
_EVERYWHERE: Final = frozenset({"list_schemas", "schema_by_guid", "ids_of_guid", "list_contexts"})
"""What shows schemas of any subject: for those who may describe the cluster."""


def topic_of(subject: str) -> str:
    """The topic whose records a subject is about."""
    name = unqualified(subject)
    return name.removesuffix("-value") if name.endswith("-value") else name.removesuffix("-key")


class RegistryCalls:
    """Lets clients do what they may."""

    def __init__(
        self,
        service: Callable[[], Awaitable[RegistryService]],
        login: RegistryLogin | None,
        audit: Audit | None = None,
        cluster_id: str = "",
    ) -> None:
        """Without a log-in clients are who their certificate says, or anonymous."""
        self._service = service
        self._login = login
        self._audit = audit
        self._cluster_id = cluster_id

    async def let_in(self, connection: Served, authorization: str | None) -> Refused | None:
        """Know who sends a request; None if that is somebody."""
        return None if self._login is None else await self._login.let_in(connection, authorization)

    async def answer(
        self, session: Session, method: str, path: str, query: Mapping[str, str], body: bytes
    ) -> tuple[int, Any]:
        """Status and answer of a request."""
        guard = session.guard
        service = await self._service()
        try:
            rest = Rest(method, path, query, await service.body(body) if body else None, body or None)
            call = call_of(rest)
            if call.name in AMONG_NODES:
                raise RegistryError(404, "HTTP 404 Not Found")
            if guard is not None:
                await self._check(call, guard)
        except RegistryError as error:
            return error.status, {"error_code": error.code, "message": error.message}
        if self._audit is not None and call.name in _CHANGES:
            reply = await self._audited(self._audit, session, call, partial(service.answer, rest))
        else:
            reply = await service.answer(rest)
        if guard is not None and call.name == "list_subjects" and reply.status == 200:
            return 200, await _described(guard, reply.body)
        if call.name == "registry_id" and reply.status == 200:
            reply.body["scope"]["clusters"]["kafka-cluster"] = self._cluster_id
        return reply.status, reply.body

    async def _audited(
        self, audit: Audit, session: Session, call: Call, answer: Callable[[], Awaitable[Reply]]
    ) -> Reply:
        """The answer to what changes something, once it is in the audit log."""

        async def outcome() -> tuple[int, str, Reply]:
            reply = await answer()
            code = 0 if reply.status == 200 else int(reply.body["error_code"])
            return code, f"HTTP_{reply.status}" if code else "NONE", reply

        operation = _ABOUT_SUBJECT.get(call.name) or _SETTINGS[call.name]
        kind, name = _resource(call)
        item = Item(None, kind, name, f"{call.name} {scope_of(call) or 'of all'}")
        try:
            return await audit.other_change(session, ApiKey.REGISTRY_CALL, operation, item, outcome)
        except KafkaStorageError as error:
            return Reply(500, {"error_code": 50001, "message": str(error)})

    async def _check(self, call: Call, guard: Guard) -> None:
        """Raise RegistryError for what a client may not do."""
        if (operation := _ABOUT_SUBJECT.get(call.name)) is not None:
            allowed = guard.allows(operation, *_resource(call), ApiKey.REGISTRY_CALL) and all(
                _describes(guard, each) or _describes(guard, each, asked=True) for each in _referred(call)
            )
        elif (operation := _SETTINGS.get(call.name)) is not None:
            allowed = guard.allows(operation, *_resource(call), ApiKey.REGISTRY_CALL)
            if call.name == "set_config" and (alias := call.field("alias", str)):  # what is its is then the other's
                allowed &= guard.allows(operation, ResourceType.TOPIC, topic_of(alias), ApiKey.REGISTRY_CALL)
        elif call.name in _BY_ID:
            allowed = await self._describes_id(call, guard)
        elif call.name in _EVERYWHERE:
            allowed = guard.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, ApiKey.REGISTRY_CALL)
        else:
            allowed = True
        if not allowed:
            raise RegistryError(40301, "User is denied operation on this server.")

    async def _describes_id(self, call: Call, guard: Guard) -> bool:
        """Whether one of the subjects that a schema is in may be seen."""
        context, id_ = quote(call.context, safe=""), quote(call.arguments["id"], safe="")
        path = f"/contexts/:{context}:/schemas/ids/{id_}/versions"
        reply = await (await self._service()).answer(Rest("GET", path, {**call.query, "deleted": "true"}))
        if reply.status == 404:
            return True  # there is nothing to be seen
        if reply.status != 200:
            raise RegistryError(reply.body["error_code"], reply.body["message"])
        subjects = [each["subject"] for each in reply.body]
        return any(_describes(guard, each) for each in subjects) or any(
            _describes(guard, each, asked=True) for each in subjects[:1]
        )


def _resource(call: Call) -> tuple[ResourceType, str]:
    """What a request about a subject, or the settings of one, of a context or of all, needs a right to."""
    scope = scope_of(call)
    if call.name in _SETTINGS and (scope is None or scope.endswith(":")):
        return ResourceType.CLUSTER, CLUSTER_NAME
    return ResourceType.TOPIC, topic_of(scope or "")


def _referred(call: Call) -> Iterator[str]:
    """The subjects that a schema which was sent refers to: it may be asked for with them in it."""
    for each in call.field("references", list) or ():
        if isinstance(each, dict) and isinstance(each.get("subject"), str):
            yield qualified(call.context, each["subject"])


def _describes(guard: Guard, subject: str, *, asked: bool = False) -> bool:
    """Whether a subject may be seen; `asked` tells of what is decided with that."""
    return guard.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic_of(subject), ApiKey.REGISTRY_CALL, asked)


async def _described(guard: Guard, subjects: list[str]) -> list[str]:
    """Those that may be seen; there may be many, so others have their turn in between."""
    turn, found = Turn(), []
    for each in subjects:
        if _describes(guard, each):
            found.append(each)
        await turn.breathe()
    return found

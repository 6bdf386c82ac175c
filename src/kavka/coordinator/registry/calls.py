"""What can be asked of the registry: paths and methods as Confluent's clients know them, and the errors they read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from kavka.coordinator.registry.state import DEFAULT_CONTEXT
from kavka.coordinator.registry.texts import AT_ONCE, read_json

MAX_VERSION: Final = (1 << 31) - 1
MAX_DIGITS: Final = 10
LATEST: Final = -1
AGAIN: Final = "\n"
"""What stands between the values of a parameter of the query that comes several times, as `net.http` reads it."""


class RegistryError(Exception):
    """An answer that is an error; the status is the first three digits of its code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        """The status of the response."""
        return int(str(self.code)[:3])


def subject_not_found(subject: str) -> RegistryError:
    """There is no such subject."""
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: int | str) -> RegistryError:
    """The subject has no such version."""
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(what: int | str = "") -> RegistryError:
    """There is no such schema."""
    return RegistryError(40403, f"Schema {what} not found" if what != "" else "Schema not found")


def invalid_subject(subject: str) -> RegistryError:
    """Nothing can have that name."""
    return RegistryError(42208, f"'{subject}' is no valid name of a subject")


def not_permitted(message: str) -> RegistryError:
    """The mode does not allow it."""
    return RegistryError(42205, message)


class Rest(NamedTuple):
    """A request as HTTP has it: the path is still quoted."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: Any = None
    data: bytes | None = None
    """What the body was read from, to be handed on as it is."""


class Reply(NamedTuple):
    """An answer: what JSON says, or a text as it is."""

    status: int
    body: Any


class Call(NamedTuple):
    """A request that is known: what it asks for, and of what."""

    name: str
    context: str
    arguments: Mapping[str, str]
    query: Mapping[str, str]
    body: Any

    def flag(self, name: str, default: bool = False) -> bool:
        """Whether a parameter of the query is true."""
        return self.query.get(name, str(default)).lower() == "true"

    def number(self, name: str, default: int) -> int:
        """A parameter of the query that is a number."""
        try:
            return int(self.query.get(name, default))
        except ValueError:
            raise RegistryError(42200, f"{name} is not a number") from None

    def values(self, name: str) -> list[str]:
        """The values of a parameter of the query that may come several times."""
        return self.query[name].split(AGAIN) if name in self.query else []

    def field(self, name: str, kind: type[Any]) -> Any:
        """A field of the body; None if it is not there."""
        value = self.body.get(name) if isinstance(self.body, dict) else None
        if value is not None and not isinstance(value, kind):
            raise RegistryError(42200, f"{name} is no {kind.__name__}")
        return value


_ROUTES: Final = {
    "GET": {
        "": "root",
        "schemas": "list_schemas",
        "schemas/types": "schema_types",
        "schemas/ids/{id}": "schema_by_id",
        "schemas/ids/{id}/schema": "text_by_id",
        "schemas/ids/{id}/subjects": "subjects_of_id",
        "schemas/ids/{id}/versions": "versions_of_id",
        "schemas/guids/{guid}": "schema_by_guid",
        "schemas/guids/{guid}/ids": "ids_of_guid",
        "subjects": "list_subjects",
        "subjects/{subject}/versions": "list_versions",
        "subjects/{subject}/versions/{version}": "version",
        "subjects/{subject}/versions/{version}/schema": "text_of_version",
        "subjects/{subject}/versions/{version}/referencedby": "referenced_by",
        "subjects/{subject}/metadata": "latest_with_metadata",
        "config": "config",
        "config/{subject}": "config",
        "mode": "mode",
        "mode/{subject}": "mode",
        "contexts": "list_contexts",
        "v1/metadata/id": "registry_id",
        "v1/metadata/version": "registry_version",
        "v1/metadata/deployment": "registry_deployment",
        "kavka/registered/{name}": "registered",
    },
    "POST": {
        "": "root",
        "subjects/{subject}": "look_up",
        "subjects/{subject}/versions": "register",
        "compatibility/subjects/{subject}/versions": "check_all",
        "compatibility/subjects/{subject}/versions/{version}": "check",
    },
    "PUT": {
        "config": "set_config",
        "config/{subject}": "set_config",
        "mode": "set_mode",
        "mode/{subject}": "set_mode",
    },
    "DELETE": {
        "subjects/{subject}": "delete_subject",
        "subjects/{subject}/versions/{version}": "delete_version",
        "config": "delete_config",
        "config/{subject}": "delete_config",
        "mode": "delete_mode",
        "mode/{subject}": "delete_mode",
    },
}

_Tree = dict[str, Any]


def _grown(routes: Mapping[str, str]) -> _Tree:
    tree: _Tree = {}
    for path, name in routes.items():
        node = tree
        for step in path.split("/") if path else ():
            node = node.setdefault("{" if step.startswith("{") else step, {"}": step.strip("{}")})
        node["/"] = name
    return tree


_TREES: Final = {method: _grown(routes) for method, routes in _ROUTES.items()}
NAMES: Final = frozenset(name for routes in _ROUTES.values() for name in routes.values())


AMONG_NODES: Final = frozenset({"registered"})
"""What only nodes ask each other."""


def reads_at_once(data: bytes) -> bool:
    """Whether reading a body takes so little time that nobody need be spared it."""
    return len(data) <= AT_ONCE


def body_of(data: bytes) -> Any:
    """What the body of a request says; raises RegistryError."""
    try:
        return read_json(data)
    except (ValueError, RecursionError):
        raise RegistryError(400, "the body is not JSON") from None


def call_of(rest: Rest) -> Call:
    """What a request asks for; raises RegistryError."""
    steps = [unquote(step) for step in rest.path.strip("/").split("/") if step]
    context = DEFAULT_CONTEXT
    if len(steps) > 2 and steps[0] == "contexts":
        context = steps[1].strip(":") or DEFAULT_CONTEXT
        if not context.startswith("."):
            context = f".{context}"
        steps = steps[2:]
    method = "GET" if rest.method == "HEAD" else rest.method
    found = _found(_TREES.get(method, {}), steps)
    if found is None:
        if any(_found(tree, steps) for tree in _TREES.values()):
            raise RegistryError(405, f"{rest.method} is not allowed here")
        raise RegistryError(404, "HTTP 404 Not Found")
    name, arguments = found
    return Call(name, context, arguments, rest.query, rest.body)


def version_of(said: Mapping[str, Any]) -> Call:
    """The question for a version that an answer is about."""
    arguments = {"subject": str(said["subject"]), "version": str(said["version"])}
    return Call("version", DEFAULT_CONTEXT, arguments, {"deleted": "true"}, None)


def _found(tree: _Tree, steps: list[str]) -> tuple[str, dict[str, str]] | None:
    arguments: dict[str, str] = {}
    node = tree
    for step in steps:
        if step in node and step not in "{}/":
            node = node[step]
        elif "{" in node:
            node = node["{"]
            arguments[node["}"]] = step
        else:
            return None
    return (node["/"], arguments) if "/" in node else None


def version_number(text: str) -> int:
    """A version as a path names it: a number, or the latest; raises RegistryError."""
    text = text.strip()
    if text.lower() in ("latest", "-1"):
        return LATEST
    if text.isdecimal() and len(text) <= MAX_DIGITS and 1 <= int(text) <= MAX_VERSION:
        return int(text)
    raise RegistryError(
        42202,
        f"The specified version '{text}' is not a valid version id. Allowed values are between [1, 2^31-1] and the "
        'string "latest"',
    )

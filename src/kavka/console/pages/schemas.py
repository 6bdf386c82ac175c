"""The schemas of a registry: subjects, versions and texts."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from kavka.client.registry import RegisteredSchema, RegistryUnreachable, SchemaNotFound, SchemaRegistryError
from kavka.console.decoding import pretty
from kavka.console.visits import RefusedError, Visit

PER_PAGE: Final = 100
MOST_NAME: Final = 1000


async def show(visit: Visit) -> Response:
    """The subjects, or the versions of one."""
    if visit.seat.values is None:
        what = "no registry is configured: start a node with --registry HOST:PORT, or `kavka console --registry URL`"
        raise RefusedError(404, "No schema registry", what)
    registry = visit.seat.values.registry
    search, subject = visit.asked("search").strip(), visit.asked("subject")[:MOST_NAME]
    subjects: list[str] = []
    versions: list[int] = []
    schema: RegisteredSchema | None = None
    problem = None
    try:
        if subject:
            versions = await registry.versions(subject)
            chosen = visit.asked_number("version", versions[-1] if versions else 1, 1, 1 << 31)
            schema = await registry.version(subject, chosen)
        else:
            subjects = await registry.subjects()
    except SchemaNotFound as error:
        raise RefusedError(404, "Not there", str(error)) from None
    except (SchemaRegistryError, ValueError) as error:
        problem = str(error)
        if isinstance(error, RegistryUnreachable) and (visit.settings.registry or "").startswith("https:"):
            problem += "; whom the console trusts is told by schema.registry.ssl.truststore.* in its client.properties"
    found = [name for name in sorted(subjects) if search.lower() in name.lower()]
    return visit.page(
        "schemas.html",
        subjects=found[:PER_PAGE],
        total=len(found),
        search=search,
        subject=subject,
        versions=versions,
        schema=schema,
        text="" if schema is None else pretty(schema.schema.text) or schema.schema.text,  # Protobuf is no JSON
        problem=problem,
    )

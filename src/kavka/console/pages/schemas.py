"""The schemas of a registry: subjects, versions and texts."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import Response

from kavka.client.http import HttpError, fetch
from kavka.console.decoding import pretty
from kavka.console.visits import RefusedError, Visit

PER_PAGE: Final = 100
MOST_NAME: Final = 1000
ASK_SECONDS: Final = 5.0


async def show(visit: Visit) -> Response:
    """The subjects, or the versions of one."""
    if visit.settings.registry is None:
        what = "no registry is configured: start a node with --registry HOST:PORT, or `kavka console --registry URL`"
        raise RefusedError(404, "No schema registry", what)
    search, subject = visit.asked("search").strip(), visit.asked("subject")[:MOST_NAME]
    subjects: list[str] = []
    versions: list[int] = []
    schema: dict[str, Any] | None = None
    problem = None
    try:
        if visit.settings.registry_logs_in:
            raise HttpError(f"{visit.settings.registry} has its clients log in, which this page cannot do")
        subjects = [str(name) for name in await _ask(visit, "/subjects")]
        if subject:
            path = f"/subjects/{quote(subject, safe='')}/versions"
            versions = [int(number) for number in await _ask(visit, path)]
            chosen = visit.asked_number("version", versions[-1], 1, 1 << 31)
            schema = await _ask(visit, f"{path}/{chosen}")
            text = str(schema.get("schema", ""))
            schema["text"] = pretty(text) or text  # Protobuf is no JSON
    except (HttpError, ValueError, IndexError, AttributeError, TypeError) as error:
        problem = str(error) or "the registry did not answer as registries do"
        if visit.settings.registry.startswith("https:") and "SSL" in problem:
            problem += ", to a console that trusts this machine's certificate authorities and has no certificate"
    found = [name for name in sorted(subjects) if search.lower() in name.lower()]
    return visit.page(
        "schemas.html",
        subjects=found[:PER_PAGE],
        total=len(found),
        everything=len(subjects),
        search=search,
        subject=subject,
        versions=versions,
        schema=schema,
        problem=problem,
    )


async def _ask(visit: Visit, path: str) -> Any:
    assert visit.settings.registry is not None
    return json.loads(await fetch(visit.settings.registry.rstrip("/") + path, seconds=ASK_SECONDS))

"""Which client quotas of the metadata a filter means (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from kavka.metadata.image import MetadataImage
from kavka.model.errors import InvalidRequest, UnsupportedVersion

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

Entity = tuple[tuple[str, str | None], ...]


class Match(IntEnum):
    """What a filter wants of one type of entity: this name, none, or any of both."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


class Component(NamedTuple):
    """What a filter wants of one type of entity."""

    entity_type: str
    match_type: int
    match: str | None


def quotas_of(image: MetadataImage, wanted: Sequence[Component], *, strict: bool) -> Mapping[Entity, dict[str, float]]:
    """The quotas by entity; a strict filter means no entity of more types than it has. Raises KafkaError."""
    _check(wanted)
    found: dict[Entity, dict[str, float]] = {}
    for record in image.security.quotas.values():
        entity = tuple((component.entity_type, component.entity_name) for component in record.entity)
        if _matches(dict(entity), wanted, strict):
            found.setdefault(entity, {})[record.key] = record.value
    return found


def _matches(entity: Mapping[str, str | None], wanted: Sequence[Component], strict: bool) -> bool:
    if strict and len(entity) != len(wanted):
        return False
    return all(
        component.entity_type in entity
        and (component.match_type == Match.SPECIFIED or entity[component.entity_type] == component.match)
        for component in wanted
    )


def _check(wanted: Sequence[Component]) -> None:
    types: set[str] = set()
    for entity_type, match_type, match in wanted:
        if not entity_type:
            raise InvalidRequest("Invalid empty entity type.")
        if entity_type in types:
            raise InvalidRequest(f"Entity type {entity_type} cannot appear more than once in the filter.")
        if entity_type not in ENTITY_TYPES:
            raise UnsupportedVersion(f"Unsupported entity type {entity_type}")
        if match_type not in list(Match):
            raise InvalidRequest(f"Unknown match type {match_type}")
        if match_type == Match.EXACT and match is None:
            raise InvalidRequest("a name is wanted (MATCH_TYPE_EXACT), but none is given")
        if match_type != Match.EXACT and match is not None:
            raise InvalidRequest(f"no name is wanted (MATCH_TYPE_{Match(match_type).name}), but {match} is given")
        types.add(entity_type)
    if IP in types and len(types) > 1:
        raise InvalidRequest("addresses have quotas of their own: no filter wants them with a user or a client id")

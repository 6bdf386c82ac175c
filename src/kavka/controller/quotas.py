"""Setting and removing client quotas (KIP-546): for users, client ids and addresses, and for those without one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from kavka.controller.results import bounded
from kavka.metadata.image import MetadataImage
from kavka.metadata.image.security import entity_key
from kavka.metadata.records.settings import ClientQuotaRecord, EntityData
from kavka.model.errors import InvalidRequest, KafkaError
from kavka.model.transition import Transition
from kavka.security.quota.limits import plain_address

USER, CLIENT_ID, IP = "user", "client-id", "ip"
INTEGRAL: Final = {
    "producer_byte_rate": (1 << 63) - 1,
    "consumer_byte_rate": (1 << 63) - 1,
    "connection_creation_rate": (1 << 31) - 1,
}
"""The quotas that are whole numbers, with their largest."""
CLIENT_KEYS: Final = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
IP_KEYS: Final = frozenset({"connection_creation_rate"})
_FRACTION: Final = 1e-6

Entity = tuple[tuple[str, str | None], ...]
"""Types with names; a name of None stands for those that have no quota of their own."""


class Alteration(NamedTuple):
    """What is to be set for an entity; None removes a quota."""

    entity: Entity
    ops: Sequence[tuple[str, float | None]]


def alter(
    image: MetadataImage, wanted: Sequence[Alteration], *, hosts: Collection[str] = (), validate_only: bool = False
) -> Transition[list[KafkaError | None]]:
    """Change the quotas of entities, each entity as a whole; an outcome for each, in order.

    `hosts` are the names among the addresses that somebody knows the address of.
    """
    outcomes: list[KafkaError | None] = []
    records: list[ClientQuotaRecord] = []
    seen: set[Entity] = set()
    for alteration in wanted:
        try:
            entity = entity_key(alteration.entity)
            if entity in seen:
                raise InvalidRequest(f"Ignoring duplicate entity {_shown(alteration.entity)}")
            seen.add(entity)
            records += _records(image, alteration, hosts)
            outcomes.append(None)
        except KafkaError as error:
            outcomes.append(error)
    return Transition(outcomes, () if validate_only else bounded(list(records)))


def _records(image: MetadataImage, alteration: Alteration, hosts: Collection[str]) -> list[ClientQuotaRecord]:
    keys = _keys_for(alteration.entity, hosts)
    entity = [EntityData(entity_type=kind, entity_name=name) for kind, name in alteration.entity]
    made: dict[str, ClientQuotaRecord | None] = {}
    for key, value in alteration.ops:
        if key in made:
            raise InvalidRequest(
                f"Duplicate quota key {key} not updating quota for this entity {_shown(alteration.entity)}"
            )
        now = image.security.quotas.get((entity_key(alteration.entity), key))
        if value is None:
            gone = ClientQuotaRecord(entity=entity, key=key, value=0.0, remove=True)
            made[key] = gone if now is not None else None
            continue
        _check_value(keys, key, value)
        changed = now is None or now.value != value
        made[key] = ClientQuotaRecord(entity=entity, key=key, value=value, remove=False) if changed else None
    return [record for record in made.values() if record is not None]


def _keys_for(entity: Entity, hosts: Collection[str]) -> frozenset[str]:
    """The quotas that an entity can have; raises InvalidRequest for one that there is not."""
    if not entity:
        raise InvalidRequest("Invalid empty client quota entity")
    names: dict[str, str | None] = {}
    for kind, name in entity:
        if kind in names:
            raise InvalidRequest(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in (USER, CLIENT_ID, IP):
            raise InvalidRequest(f"Unhandled client quota entity type: {kind}")
        if name is not None and not name:
            raise InvalidRequest(f"Empty {kind} not supported")
        names[kind] = name
    if IP not in names:
        return CLIENT_KEYS
    if len(names) > 1:
        raise InvalidRequest("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
    address = names[IP]
    if address is not None and address not in hosts and plain_address(address) is None:
        raise InvalidRequest(f"{address} is not a valid IP or resolvable host.")
    return IP_KEYS


def _check_value(keys: frozenset[str], key: str, value: float) -> None:
    if key not in keys:
        raise InvalidRequest(f"Invalid configuration key {key}")
    if not value > 0:
        raise InvalidRequest(f"Quota {key} must be greater than 0")
    largest = INTEGRAL.get(key)
    if largest is None:
        return
    if value > float(largest):  # as Java compares: Long.MAX_VALUE is sent as 2**63
        kind = "INT" if largest < 1 << 32 else "LONG"
        raise InvalidRequest(f"Proposed value for {key} is too large for {'an' if kind == 'INT' else 'a'} {kind}.")
    if abs(value % 1.0) > _FRACTION:
        raise InvalidRequest(f"{key} cannot be a fractional value.")


def _shown(entity: Entity) -> str:
    return "ClientQuotaEntity(" + ", ".join(f"{kind}={name or '<default>'}" for kind, name in entity) + ")"

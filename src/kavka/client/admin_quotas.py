"""Administration of client quotas: of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kavka.client.pool import Pool
from kavka.client.view import raise_for
from kavka.protocol.schemas.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
)
from kavka.protocol.schemas.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


class Default:
    """Stands for those that have no quota of their own."""

    def __repr__(self) -> str:
        return "<default>"


DEFAULT: Final = Default()

Name = str | Default
"""A user, a client id or an address, or all that have no quota of their own."""


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """Whom quotas are for; None where it does not matter which."""

    user: Name | None = None
    client_id: Name | None = None
    ip: Name | None = None

    @property
    def parts(self) -> list[tuple[str, Name]]:
        """The types that matter, with their names."""
        given = (("user", self.user), ("client-id", self.client_id), ("ip", self.ip))
        return [(kind, name) for kind, name in given if name is not None]

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name}" for kind, name in self.parts)


class QuotasAdmin:
    """The part of the admin client that deals with quotas."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def describe_quotas(
        self, entity: QuotaEntity | None = None, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas by whom they are for: of all, or of those that have what an entity has (strict: and no more)."""
        components = [
            ComponentData(entity_type=kind, match_type=int(name is DEFAULT), match=_wire(name))
            for kind, name in (entity or QuotaEntity()).parts
        ]
        request = DescribeClientQuotasRequest(components=components, strict=strict)
        answer = await self._pool.request(request, DescribeClientQuotasResponse)
        raise_for(answer.error_code, answer.error_message or None)
        return {
            _entity({part.entity_type: part.entity_name for part in entry.entity}): {
                quota.key: quota.value for quota in entry.values
            }
            for entry in answer.entries or []
        }

    async def alter_quotas(
        self, entity: QuotaEntity, quotas: Mapping[str, float | None], *, validate_only: bool = False
    ) -> None:
        """Set quotas of an entity; None removes one."""
        entry = RequestEntryData(
            entity=[EntityData(entity_type=kind, entity_name=_wire(name)) for kind, name in entity.parts],
            ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
        )
        request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
        answer = await self._pool.request(request, AlterClientQuotasResponse)
        for row in answer.entries:
            raise_for(row.error_code, row.error_message)


def _wire(name: Name) -> str | None:
    return name if isinstance(name, str) else None


def _entity(names: Mapping[str, str | None]) -> QuotaEntity:
    def name(kind: str) -> Name | None:
        return None if kind not in names else names[kind] if names[kind] is not None else DEFAULT

    return QuotaEntity(name("user"), name("client-id"), name("ip"))

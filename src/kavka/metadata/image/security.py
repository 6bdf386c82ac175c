"""What records say of access control, credentials, tokens and quotas: kept as it was written.

Each kept record stands under its key until another record replaces or removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from kavka.metadata.image.persistent import GONE, Gone, PersistentMap
from kavka.metadata.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from kavka.metadata.records.settings import ClientQuotaRecord


@dataclass(frozen=True, slots=True)
class SecurityImage:
    """The records in force, by what they are about."""

    acls: PersistentMap[Hashable, AccessControlEntryRecord]
    scram: PersistentMap[Hashable, UserScramCredentialRecord]
    tokens: PersistentMap[Hashable, DelegationTokenRecord]
    quotas: PersistentMap[Hashable, ClientQuotaRecord]


EMPTY_SECURITY = SecurityImage(PersistentMap(), PersistentMap(), PersistentMap(), PersistentMap())


def _quota_key(record: ClientQuotaRecord) -> Hashable:
    return entity_key((component.entity_type, component.entity_name) for component in record.entity), record.key


def entity_key(entity: Iterable[tuple[str, str | None]]) -> tuple[tuple[str, str | None], ...]:
    """Whom a quota is for: each type with a name, None for those that have no quota of their own."""
    return tuple(sorted(entity, key=itemgetter(0)))


KEEPS: Final[dict[type, tuple[str, Callable[[Any], Hashable]]]] = {
    AccessControlEntryRecord: ("acls", lambda record: record.id),
    RemoveAccessControlEntryRecord: ("acls", lambda record: record.id),
    UserScramCredentialRecord: ("scram", lambda record: (record.name, record.mechanism)),
    RemoveUserScramCredentialRecord: ("scram", lambda record: (record.name, record.mechanism)),
    DelegationTokenRecord: ("tokens", lambda record: record.token_id),
    RemoveDelegationTokenRecord: ("tokens", lambda record: record.token_id),
    ClientQuotaRecord: ("quotas", _quota_key),
}
"""Where a record is kept, and under which key."""

_REMOVES: Final = (RemoveAccessControlEntryRecord, RemoveUserScramCredentialRecord, RemoveDelegationTokenRecord)


class SecurityDraft:
    """The kept records being changed by others."""

    def __init__(self, image: SecurityImage) -> None:
        self._image = image
        self._changes: dict[str, dict[Hashable, Any | Gone]] = {}

    @property
    def changed(self) -> frozenset[str]:
        """The kinds that were touched."""
        return frozenset(self._changes)

    def keep(self, record: Any) -> None:
        """Put a record in force, or end the one it removes."""
        kind, key_of = KEEPS[type(record)]
        removes = isinstance(record, _REMOVES) or (isinstance(record, ClientQuotaRecord) and record.remove)
        self._changes.setdefault(kind, {})[key_of(record)] = GONE if removes else record

    def build(self) -> SecurityImage:
        """The image with the changes."""
        if not self._changes:
            return self._image
        image = self._image
        return SecurityImage(
            acls=image.acls.changed(self._changes.get("acls", {})),
            scram=image.scram.changed(self._changes.get("scram", {})),
            tokens=image.tokens.changed(self._changes.get("tokens", {})),
            quotas=image.quotas.changed(self._changes.get("quotas", {})),
        )

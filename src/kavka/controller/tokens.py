"""Delegation tokens (KIP-48, KIP-373): handed out, renewed and ended.

The log remembers who a token is for and how long; its secret is derived from the token's id and the cluster's
`delegation.token.secret.key`, so that nothing in the log can be used to log in.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kavka.metadata.image import MetadataImage
from kavka.metadata.records.security import DelegationTokenRecord, RemoveDelegationTokenRecord
from kavka.model.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    InvalidPrincipalType,
    UnsupportedVersion,
)
from kavka.model.transition import Transition
from kavka.model.types import Uuid
from kavka.protocol.schema import replace
from kavka.security.token import TokenSecrets

MV_TOKENS: Final = 14
"""The metadata.version from which the log can remember tokens (3.6-IV2)."""
SWEPT_AT_ONCE: Final = 1000
_NEVER: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What the configuration says of tokens."""

    secrets: TokenSecrets | None
    max_lifetime_ms: int
    renew_ms: int


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its secret."""

    record: DelegationTokenRecord
    hmac: bytes

    def __repr__(self) -> str:
        return f"Token({self.record.token_id})"


class Tokens:
    """Decides about tokens."""

    def __init__(self, rules: TokenRules, new_id: Callable[[], Uuid]) -> None:
        self._rules = rules
        self._new_id = new_id
        self._known = KnownSecrets()

    def create(
        self,
        image: MetadataImage,
        requester: str,
        owner: str,
        renewers: Sequence[str],
        max_lifetime_ms: int,
        now_ms: int,
    ) -> Transition[Token]:
        """A new token for an owner."""
        secrets = self._secrets(image)
        for renewer in renewers:
            if not renewer.startswith("User:"):
                raise InvalidPrincipalType(f"{renewer} is no user, and only users renew tokens")
        lifetime = self._rules.max_lifetime_ms
        if max_lifetime_ms > 0:
            lifetime = min(lifetime, max_lifetime_ms)
        ends = min(now_ms + lifetime, _NEVER)
        record = DelegationTokenRecord(
            owner=owner,
            requester=requester,
            renewers=list(renewers),
            issue_timestamp=now_ms,
            max_timestamp=ends,
            expiration_timestamp=min(ends, now_ms + self._rules.renew_ms),
            token_id=str(self._new_id()),
        )
        return Transition(Token(record, secrets.make(record.token_id)), (record,))

    def renew(self, image: MetadataImage, by: str, hmac_: bytes, period_ms: int, now_ms: int) -> Transition[int]:
        """Renew a token; the reply is when it expires."""
        record = self._find(image, hmac_)
        if _is_over(record, now_ms):
            raise DelegationTokenExpired
        _check_renewer(record, by)
        longer = self._rules.renew_ms if period_ms <= 0 else min(self._rules.renew_ms, period_ms)
        return self._until(record, min(record.max_timestamp, now_ms + longer))

    def expire(self, image: MetadataImage, by: str, hmac_: bytes, period_ms: int, now_ms: int) -> Transition[int]:
        """End a token, at once for a negative period; the reply is when."""
        record = self._find(image, hmac_)
        _check_renewer(record, by)
        if period_ms < 0:
            return Transition(now_ms, (RemoveDelegationTokenRecord(token_id=record.token_id),))
        if _is_over(record, now_ms):
            raise DelegationTokenExpired
        return self._until(record, min(record.max_timestamp, now_ms + period_ms))

    def sweep(self, image: MetadataImage, now_ms: int) -> tuple[RemoveDelegationTokenRecord, ...]:
        """Forget tokens whose time is over, some at once."""
        return tuple(_ended(image, now_ms))

    def _until(self, record: DelegationTokenRecord, expires_ms: int) -> Transition[int]:
        return Transition(expires_ms, (replace(record, expiration_timestamp=expires_ms),))

    def _secrets(self, image: MetadataImage) -> TokenSecrets:
        if self._rules.secrets is None:
            raise DelegationTokenAuthDisabled("delegation.token.secret.key is not set")
        if image.features.metadata_version < MV_TOKENS:
            raise UnsupportedVersion("the metadata.version of the cluster has no delegation tokens")
        return self._rules.secrets

    def _find(self, image: MetadataImage, hmac: bytes) -> DelegationTokenRecord:
        record = self._known.find(image, hmac, self._secrets(image))
        if record is None:
            raise DelegationTokenNotFound
        return record


class KnownSecrets:
    """Soft state: which token a secret belongs to; follows the tokens of the image it was last asked about."""

    def __init__(self) -> None:
        self._tokens: Mapping[Hashable, DelegationTokenRecord] = {}
        self._secrets: dict[Hashable, tuple[bytes, ...]] = {}
        self._ids: dict[bytes, Hashable] = {}

    def find(self, image: MetadataImage, hmac: bytes, secrets: TokenSecrets) -> DelegationTokenRecord | None:
        """The token of a secret."""
        tokens = image.security.tokens
        if tokens is not self._tokens:
            for gone in self._secrets.keys() - tokens.keys():
                for secret in self._secrets.pop(gone):
                    del self._ids[secret]
            for id_ in tokens.keys() - self._secrets.keys():
                self._secrets[id_] = made = tuple(secrets.accepted(str(id_)))
                self._ids.update(dict.fromkeys(made, id_))
            self._tokens = tokens
        id_ = self._ids.get(hmac)
        return None if id_ is None else tokens[id_]


def _is_over(record: DelegationTokenRecord, now_ms: int) -> bool:
    return record.max_timestamp < now_ms or record.expiration_timestamp < now_ms


def _check_renewer(record: DelegationTokenRecord, by: str) -> None:
    if by != record.owner and by not in record.renewers:
        raise DelegationTokenOwnerMismatch


def _ended(image: MetadataImage, now_ms: int) -> Iterator[RemoveDelegationTokenRecord]:
    left = SWEPT_AT_ONCE
    for record in image.security.tokens.values():
        if _is_over(record, now_ms):
            yield RemoveDelegationTokenRecord(token_id=record.token_id)
            left -= 1
            if not left:
                return

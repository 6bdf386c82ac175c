"""The secrets of delegation tokens (KIP-48): each follows from the token's id and a key that all nodes share.

Two keys may be accepted at a time, so that a key can be changed while tokens are about: the next key is first accepted
on every node, then becomes the one that tokens are made with, and the old one is accepted until its tokens are over.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from kavka.model.settings.listeners import Readable
from kavka.model.settings.security import DELEGATION_TOKEN_SECRET_KEY, KAVKA_DELEGATION_TOKEN_ACCEPTED_SECRET_KEY
from kavka.security.sasl.scram import MIN_ITERATIONS, Credential, Mechanism, TokenCredential

REMEMBERED: Final = 1_000
"""How many tokens that were logged in with are remembered: what they take the place of costs some milliseconds."""


def token_hmac(secret: str, token_id: str) -> bytes:
    """What the owner of a token logs in with."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


class TokenSecrets:
    """The keys in force; the first makes tokens, both are accepted."""

    __slots__ = ("_keys",)

    def __init__(self, key: str, accepted: str | None = None) -> None:
        self._keys = (key,) if accepted is None or accepted == key else (key, accepted)

    @staticmethod
    def of(values: Readable) -> TokenSecrets | None:
        """What the settings say; None where there are no tokens."""
        key, accepted = values[DELEGATION_TOKEN_SECRET_KEY], values[KAVKA_DELEGATION_TOKEN_ACCEPTED_SECRET_KEY]
        if key is None:
            return None
        return TokenSecrets(key.value, None if accepted is None else accepted.value)

    def make(self, token_id: str) -> bytes:
        """The secret of a token as it is handed out and shown."""
        return token_hmac(self._keys[0], token_id)

    def accepted(self, token_id: str) -> Iterator[bytes]:
        """The secrets that a token's owner may know, the newest first."""
        return (token_hmac(key, token_id) for key in self._keys)

    def credentials(self, mechanism: Mechanism, token_id: str) -> tuple[Credential, ...]:
        """What a login with a token is compared with: one for each key, of the same salt."""
        salt = hmac.digest(self._keys[-1].encode(), b"salt of " + token_id.encode(), "sha256")
        return tuple(
            Credential.of_password(mechanism, b64encode(secret).decode(), salt, MIN_ITERATIONS)
            for secret in self.accepted(token_id)
        )


class KnownToken(Protocol):
    """What the metadata knows of a token."""

    @property
    def owner(self) -> str:
        """Who logs in by it."""

    @property
    def expiration_timestamp(self) -> int:
        """Until when."""


def no_tokens(token_id: str) -> TokenCredential | None:
    """Where tokens are looked up that cannot be logged in with."""
    return None


class TokenLogins:
    """Where a server looks up the tokens that clients log in with by one SCRAM mechanism."""

    def __init__(
        self,
        secrets: TokenSecrets,
        mechanism: Mechanism,
        find: Callable[[str], KnownToken | None],
        now_ms: Callable[[], int],
    ) -> None:
        self._secrets = secrets
        self._mechanism = mechanism
        self._find = find
        self._now_ms = now_ms
        self._made: dict[str, tuple[Credential, ...]] = {}

    def __call__(self, token_id: str) -> TokenCredential | None:
        """A token that is in force, as it can be logged in with."""
        token = self._find(token_id)
        if token is None or token.expiration_timestamp < self._now_ms():
            self._made.pop(token_id, None)
            return None
        made = self._made.pop(token_id, None)
        if made is None:
            made = self._secrets.credentials(self._mechanism, token_id)
            if len(self._made) >= REMEMBERED:
                del self._made[next(iter(self._made))]  # the one that was used longest ago
        self._made[token_id] = made
        first, *others = made
        return TokenCredential(first, token.owner.partition(":")[2], token.expiration_timestamp, also=tuple(others))

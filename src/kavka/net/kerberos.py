"""Security contexts of the system's Kerberos library (extra `gssapi`): of a service, and of who asks for one."""

from __future__ import annotations

from typing import Any, Final

import gssapi
from gssapi.raw.misc import GSSError

from kavka.security.sasl.gssapi import ContextError

FLAGS: Final = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity


class KerberosContext:
    """A context, on either side."""

    def __init__(self, context: Any, *, accepts: bool) -> None:
        self._context = context
        self._accepts = accepts

    @property
    def complete(self) -> bool:
        """Whether it is established."""
        return bool(self._context.complete)

    @property
    def peer(self) -> str:
        """Who is at the other side."""
        return str(self._context.initiator_name if self._accepts else self._context.target_name)

    def step(self, token: bytes | None) -> bytes:
        """Take in a token and give the next one."""
        try:
            return self._context.step(token) or b""
        except GSSError as error:
            raise ContextError(_words(error)) from None

    def wrap(self, message: bytes) -> bytes:
        """A message with a proof that it is ours."""
        try:
            return bytes(self._context.wrap(message, False).message)
        except GSSError as error:
            raise ContextError(_words(error)) from None

    def unwrap(self, message: bytes) -> bytes:
        """The message of the other side."""
        try:
            return bytes(self._context.unwrap(message).message)
        except GSSError as error:
            raise ContextError(_words(error)) from None


class KerberosService:
    """Takes the tickets of clients."""

    def __init__(self, principal: str, keytab: str) -> None:
        """Raises ContextError where the keytab has no key of the principal."""
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        try:
            self._credentials = gssapi.Credentials(usage="accept", name=name, store={"keytab": keytab})
            self.principal = str(self._credentials.name)
        except GSSError as error:
            raise ContextError(_words(error)) from None

    def context(self) -> KerberosContext:
        """A new login."""
        return KerberosContext(gssapi.SecurityContext(creds=self._credentials, usage="accept"), accepts=True)


class Login:
    """Has tickets for services: of a keytab, or of whoever has logged in on this machine."""

    def __init__(self, principal: str | None = None, keytab: str | None = None) -> None:
        self._name = None if principal is None else gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        self._store: dict[bytes | str, bytes | str] | None = None
        if keytab is not None:
            self._store = {"client_keytab": keytab, "ccache": f"MEMORY:kavka-{id(self):x}"}

    def context(self, service: str, host: str) -> KerberosContext:
        """A new login to a service; raises ContextError where there are no credentials."""
        target = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
        try:
            credentials = gssapi.Credentials(usage="initiate", name=self._name, store=self._store)
            context = gssapi.SecurityContext(name=target, creds=credentials, usage="initiate", flags=FLAGS)
        except GSSError as error:
            raise ContextError(_words(error)) from None
        return KerberosContext(context, accepts=False)


def _words(error: Any) -> str:
    """What the library says, in one line."""
    return " ".join(str(error).split())

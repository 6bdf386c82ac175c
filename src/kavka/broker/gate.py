"""What connections may do: the decisions of the authorizer, remembered for each principal and told to the audit log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from ipaddress import IPv6Address
from logging import DEBUG
from typing import Final
from weakref import WeakValueDictionary

from kavka.metadata.access import AccessRules
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage
from kavka.model.errors import UnknownServerError
from kavka.model.settings import (
    ALLOW_EVERYONE_IF_NO_ACL_FOUND,
    AUTHORIZER_CLASS_NAME,
    SUPER_USERS,
    SettingError,
    Values,
)
from kavka.net.session import Session
from kavka.protocol.registry import API
from kavka.security.acl import Operation, ResourceType
from kavka.security.authorizer import Authorizer, Decision

audit = logging.getLogger("kafka.authorizer.logger")

REMEMBERED: Final = 10_000
"""How many decisions are remembered for one principal at one address: the names come from clients."""
LONGEST_REMEMBERED: Final = 249
"""No topic has a longer name; decisions about what has are made anew each time."""
REMEMBERED_BY_ALL: Final = 200_000
"""How many decisions are remembered for all of them together."""


STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def authorizer_of(values: Values) -> Authorizer | None:
    """The authorizer that the settings ask for, None for none; raises SettingError for one that there is not."""
    name = values[AUTHORIZER_CLASS_NAME]
    if not name:
        return None
    kind = Authorizer if name == STANDARD else _imported(name)
    users = [user for text in values[SUPER_USERS].split(";") if (user := text.strip())]
    for user in users:
        if not all(user.partition(":")[::2]):
            raise SettingError(f"{SUPER_USERS.name}: {user!r} is not of the form User:name")
    return kind(users, values[ALLOW_EVERYONE_IF_NO_ACL_FOUND])


def _imported(name: str) -> type[Authorizer]:
    """An authorizer of the operator's own, named as package.module:Class."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        what = f"{name} is neither {STANDARD} nor a class that can be imported as package.module:Class: {error}"
        raise SettingError(f"{AUTHORIZER_CLASS_NAME.name}: {what}") from None
    if not (isinstance(found, type) and issubclass(found, Authorizer)):
        raise SettingError(f"{AUTHORIZER_CLASS_NAME.name}: {name} is no subclass of {Authorizer.__module__}.Authorizer")
    return found


class Gate:
    """Who may do what on this node; follows the ACLs of the metadata."""

    def __init__(self, authorizer: Authorizer | None, *, loaded: bool = True) -> None:
        """Rules that are not `loaded` come with the first image; until then only super users are let through."""
        self.authorizer = authorizer
        """None where everybody may do everything."""
        self.loaded = loaded
        self.remembered = 0
        """How many decisions are remembered."""
        self._guards: WeakValueDictionary[tuple[str, str], PrincipalGuard] = WeakValueDictionary()
        self.rules = AccessRules()
        self.watch: Callable[[Session], None] | None = None
        """Told of every session that was admitted, where decisions are audited."""

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take over the ACLs of an image."""
        self.loaded = True
        if self.rules.follow(image):
            self.forget()

    def admit(self, session: Session) -> None:
        """Set a guard on a session, for who it is now."""
        session.guard = self.guard(session.principal, session.client_host)
        if self.watch is not None:
            self.watch(session)

    def guard(self, principal: str, host: str) -> PrincipalGuard | None:
        """Who knows what a principal at an address may do; None where nobody is kept from anything.

        All connections of a principal from an address have one, and with it what was decided already.
        """
        if self.authorizer is None:
            return None
        guard = self._guards.get((principal, host))
        if guard is None:
            guard = PrincipalGuard(self, self.authorizer, principal, java_address(host))
            self._guards[principal, host] = guard
        return guard

    def recount(self) -> int:
        """How many decisions are remembered: those of connections that are gone went with them."""
        self.remembered = sum(guard.remembered for guard in self._guards.values())
        return self.remembered

    def forget(self) -> None:
        """Forget everything that was decided."""
        self.remembered = 0
        for guard in list(self._guards.values()):
            guard.forget()


def java_address(host: str) -> str:
    """An address as Java prints it, which is how ACLs name hosts: with all of its groups."""
    if ":" not in host:
        return host
    address, _, zone = host.partition("%")
    groups = ":".join(f"{int(group, 16):x}" for group in IPv6Address(address).exploded.split(":"))
    return f"{groups}%{zone}" if zone else groups


class PrincipalGuard:
    """Knows what one principal may do, and remembers it until the ACLs change."""

    __slots__ = ("__weakref__", "_authorizer", "_decisions", "_gate", "_host", "_principal")

    def __init__(self, gate: Gate, authorizer: Authorizer, principal: str, host: str) -> None:
        self._gate = gate
        self._authorizer = authorizer
        self._principal = principal
        self._host = host
        self._decisions: dict[tuple[int, int, str], Decision] = {}

    def allows(self, operation: int, resource_type: int, name: str, api_key: int, asked: bool = True) -> bool:
        """Whether something may be done; what was not `asked` for is only looked up, and no attempt."""
        decision = self._decisions.get((operation, resource_type, name))
        if decision is None:
            decision = self._decide(operation, resource_type, name)
        if decision.allowed:
            if asked and audit.isEnabledFor(DEBUG):
                self._tell(audit.debug, (operation, resource_type, name), api_key, decision)
            return True
        if asked:
            self._tell(audit.info, (operation, resource_type, name), api_key, decision)
        return False

    def _decide(self, operation: int, resource_type: int, name: str) -> Decision:
        gate = self._gate
        self._require_rules()
        if gate.remembered >= REMEMBERED_BY_ALL and gate.recount() >= REMEMBERED_BY_ALL:
            gate.forget()
        elif len(self._decisions) >= REMEMBERED:
            gate.remembered -= self.forget()
        decision = self._authorizer.decide(
            gate.rules.acls, self._principal, self._host, Operation(operation), ResourceType(resource_type), name
        )
        if len(name) <= LONGEST_REMEMBERED:
            self._decisions[operation, resource_type, name] = decision
            gate.remembered += 1
        return decision

    @property
    def remembered(self) -> int:
        """How many decisions are remembered."""
        return len(self._decisions)

    def forget(self) -> int:
        """Forget everything that was decided; how much that was."""
        forgotten = len(self._decisions)
        self._decisions.clear()
        return forgotten

    def _require_rules(self) -> None:
        if not self._gate.loaded and not self._authorizer.is_super_user(self._principal):
            raise UnknownServerError("the ACLs are not loaded yet")  # what Kafka's AuthorizerNotReady becomes

    def allows_any(self, operation: int, resource_type: int) -> bool:
        """Whether something may be done with at least one resource of a type."""
        self._require_rules()
        return self._authorizer.decide_any(
            self._gate.rules.acls, self._principal, self._host, Operation(operation), ResourceType(resource_type)
        ).allowed

    def _tell(self, log: Callable[..., None], asked: tuple[int, int, str], api_key: int, decision: Decision) -> None:
        operation, resource_type, name = asked
        log(
            "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s "
            "with resourceRefCount = 1 based on rule %s",
            self._principal,
            "Allowed" if decision.allowed else "Denied",
            Operation(operation).name,
            self._host,
            ResourceType(resource_type).title,
            name,
            API[api_key].name,
            decision.reason,
        )

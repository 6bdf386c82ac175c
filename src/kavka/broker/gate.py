"""What connections may do: the decisions of the authorizer, remembered for each principal and told to the audit log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from kavka.metadata.access import AccessRules
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage
from kavka.protocol.registry import API
from kavka.security.acl import Operation, ResourceType
from kavka.security.authorizer import Authorizer, Decision

audit = logging.getLogger("kafka.authorizer.logger")

REMEMBERED: Final = 10_000
"""How many decisions are remembered for one principal: the names come from clients."""


class Gate:
    """Who may do what on this node; follows the access rules of the metadata."""

    def __init__(self, authorizer: Authorizer) -> None:
        self.authorizer = authorizer
        self.rules = AccessRules()
        self.version = 0
        """Goes up whenever the rules change: what was decided before no longer counts."""

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take over the rules of an image."""
        if self.rules.follow(image):
            self.version += 1

    def guard(self, principal: str, host: str) -> PrincipalGuard:
        """What a principal at an address may do."""
        return PrincipalGuard(self, principal, host)


class PrincipalGuard:
    """Knows what one principal may do, and remembers it until the rules change."""

    __slots__ = ("_decisions", "_gate", "_host", "_principal", "_version")

    def __init__(self, gate: Gate, principal: str, host: str) -> None:
        self._gate = gate
        self._principal = principal
        self._host = host
        self._version = gate.version
        self._decisions: dict[tuple[int, int, str], Decision] = {}

    def allows(self, operation: int, resource_type: int, name: str, api_key: int, asked: bool = True) -> bool:
        """Whether something may be done; what was not `asked` for is only looked up, and no attempt."""
        gate = self._gate
        if self._version != gate.version or len(self._decisions) >= REMEMBERED:
            self._version = gate.version
            self._decisions.clear()
        key = (operation, resource_type, name)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._decisions[key] = gate.authorizer.decide(
                gate.rules.acls,
                self._principal,
                self._host,
                Operation(operation),
                ResourceType(resource_type),
                name,
            )
        if decision.allowed:
            if asked and audit.isEnabledFor(logging.DEBUG):
                self._tell(audit.debug, key, api_key, decision)
        elif asked:
            self._tell(audit.info, key, api_key, decision)
        return decision.allowed

    def allows_any(self, operation: int, resource_type: int) -> bool:
        """Whether something may be done with at least one resource of a type."""
        gate = self._gate
        return gate.authorizer.decide_any(
            gate.rules.acls, self._principal, self._host, Operation(operation), ResourceType(resource_type)
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

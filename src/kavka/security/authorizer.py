"""What the access rules allow: the semantics of Kafka's StandardAuthorizer.

Super users may do everything. A matching DENY ends it, a matching ALLOW is needed otherwise; a resource that no rule
concerns is open only where `allow.everyone.if.no.acl.found` says so. Some rights are contained in others, but only
in rules that allow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kavka.security.acl import ANYBODY, WILDCARD, Acl, Acls, Operation, PatternType, PermissionType, ResourceType

_IMPLY: Final = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL}),
}
_ANY_NAME: Final = "hardcode"
"""The name that Kafka asks for when it wants to know of any resource: it shows in audit lines."""


class Decision(NamedTuple):
    """Whether something is allowed, and by which rule."""

    allowed: bool
    rule: str | Acl

    @property
    def reason(self) -> str:
        """The rule as audit lines name it."""
        return self.rule if isinstance(self.rule, str) else f"MatchingAcl(acl={self.rule})"


SUPER_USER: Final = Decision(True, "SuperUser")
DEFAULT_ALLOW: Final = Decision(True, "DefaultAllow")
DEFAULT_DENY: Final = Decision(False, "DefaultDeny")


class Authorizer:
    """Decides by the rules and by what the configuration says of super users and of resources without rules."""

    __slots__ = ("_no_acl", "_super_users")

    def __init__(self, super_users: Iterable[str] = (), allow_everyone_if_no_acl_found: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._no_acl = DEFAULT_ALLOW if allow_everyone_if_no_acl_found else DEFAULT_DENY

    def is_super_user(self, principal: str) -> bool:
        """Whether a principal may do everything."""
        return principal in self._super_users

    def decide(
        self, acls: Acls, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Decision:
        """Whether a principal at an address may do something with a resource."""
        if principal in self._super_users:
            return SUPER_USER
        allowed: Acl | None = None
        outcome = self._no_acl
        for acl in acls.of(resource_type, name):
            outcome = DEFAULT_DENY
            if acl.principal not in (principal, ANYBODY) or acl.host not in (WILDCARD, host):
                continue
            if acl.permission_type == PermissionType.DENY:
                if acl.operation in (operation, Operation.ALL):
                    return Decision(False, acl)
            elif _allows(acl.operation, operation):
                allowed = acl
        return outcome if allowed is None else Decision(True, allowed)

    def decide_any(
        self, acls: Acls, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        """Whether a principal may do something with at least one resource of a type."""
        decision = self.decide(acls, principal, host, operation, resource_type, _ANY_NAME)
        if decision.allowed:
            return decision
        denied: set[tuple[int, str]] = set()
        allowed: dict[tuple[int, str], Acl] = {}
        for acl in acls.of_type(resource_type):
            if acl.principal not in (principal, ANYBODY) or acl.host not in (WILDCARD, host):
                continue
            if acl.operation not in (operation, Operation.ALL):
                continue
            if acl.permission_type == PermissionType.DENY:
                denied.add((acl.pattern_type, acl.resource_name))
            else:
                allowed[acl.pattern_type, acl.resource_name] = acl
        wildcard = (PatternType.LITERAL, WILDCARD)
        if wildcard in denied:
            return DEFAULT_DENY
        if wildcard in allowed:
            return Decision(True, allowed[wildcard])
        for (pattern_type, name), acl in allowed.items():
            if (pattern_type, name) in denied:
                continue
            if not any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1)):
                return Decision(True, acl)
        return DEFAULT_DENY


def _allows(granted: int, operation: Operation) -> bool:
    """Whether a rule that grants one operation grants another."""
    implying = _IMPLY.get(operation)
    return granted in (operation, Operation.ALL) if implying is None else granted in implying

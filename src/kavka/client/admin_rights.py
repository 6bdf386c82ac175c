"""The admin client's answer to "may they do that?": the cluster's rules, decided as its brokers decide."""

from __future__ import annotations

from typing import Final, NamedTuple

from kavka.client.admin_configs import ConfigResource, ConfigsAdmin
from kavka.client.admin_security import Acl, AclOperation, AclPattern, AclPermission, AclResource, SecurityAdmin
from kavka.client.pool import Pool
from kavka.security.acl import Acls
from kavka.security.authorizer import Authorizer

AUTHORIZER: Final = "authorizer.class.name"
SUPER_USERS: Final = "super.users"
OPEN: Final = "allow.everyone.if.no.acl.found"


class Verdict(NamedTuple):
    """Whether something is allowed, and why; `rule` is the ACL that decides, if one does."""

    allowed: bool
    why: str
    rule: Acl | None = None


class RightsAdmin:
    """The part of the admin client that judges rights."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def may(
        self, principal: str, operation: AclOperation, resource: AclResource, name: str, host: str = "*"
    ) -> Verdict:
        """Whether a principal may do something with a resource; takes the rights to see ACLs and brokers' settings."""
        view = await self._pool.refresh()
        broker = ConfigResource.broker(min(view.nodes))
        found = await ConfigsAdmin(self._pool).describe_configs(broker, names=[AUTHORIZER, SUPER_USERS, OPEN])
        settings = {key: entry.value or "" for key, entry in found[broker].items()}
        if not settings.get(AUTHORIZER):
            return Verdict(True, "the cluster has no authorizer: everybody may do everything")
        users = [user.strip() for user in settings.get(SUPER_USERS, "").split(";") if user.strip()]
        rules = Acls(await SecurityAdmin(self._pool).describe_acls())
        open_ = settings.get(OPEN, "false").lower() == "true"
        decision = Authorizer(users, open_).decide(rules, principal, host, operation, resource, name)
        if isinstance(decision.rule, Acl):
            return Verdict(decision.allowed, _words(decision.rule), decision.rule)
        if users and principal in users:
            return Verdict(True, f"{principal} is a super user")
        if decision.allowed:
            return Verdict(True, f"no rule concerns this resource, and {OPEN} is set")
        return Verdict(False, "no rule allows it")


def _words(acl: Acl) -> str:
    verb = "allows" if acl.permission_type == AclPermission.ALLOW else "denies"
    kind = AclResource(acl.resource_type).title
    begins = "names that begin with " if acl.pattern_type == AclPattern.PREFIXED else ""
    operation = AclOperation(acl.operation).title
    return f"a rule {verb} {acl.principal} from {acl.host} {operation} on {kind} {begins}{acl.resource_name}"

"""The tool cases as a plain user, who has every right of the table of rights and no other, and is not super.

`make compat-jvm-as-user` runs them so: KAVKA_COMPAT_AS_USER=1 gives the shared node an authorizer.
"""

from __future__ import annotations

import os
from contextlib import closing

from crash.raw import Raw
from kavka.security.acl import CLUSTER_NAME, WILDCARD, PatternType, PermissionType, ResourceType
from rights import BY_STEM, build
from rights_asked import ALL_CASES

ASKED = os.environ.get("KAVKA_COMPAT_AS_USER") == "1"
USER = "User:ANONYMOUS"
OVERRIDES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # who comes first may set the rights; from then on every resource has some, and this says nothing any more
    "allow.everyone.if.no.acl.found": "true",
}


def overrides() -> dict[str, str]:
    """What the shared node is told beside the usual."""
    return OVERRIDES if ASKED else {}


def grant(bootstrap: str) -> None:
    """Give the user the rights of the table, each on all resources of its type."""
    if not ASKED:
        return
    rights = {(right.operation, right.resource_type) for case in ALL_CASES for right in case.needs}
    creations = [
        {
            "resource_type": kind,
            "resource_name": CLUSTER_NAME if kind == ResourceType.CLUSTER else WILDCARD,
            "resource_pattern_type": PatternType.LITERAL,
            "principal": USER,
            "host": "*",
            "operation": operation,
            "permission_type": PermissionType.ALLOW,
        }
        for operation, kind in sorted(rights)
    ]
    with closing(Raw(bootstrap)) as raw:
        answer = raw.call(build(BY_STEM["create_acls"].request(), {"creations": creations}), 3)
    assert {row.error_code for row in answer.results} == {0}, answer

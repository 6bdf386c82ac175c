"""ACLs: what they say, which of them concern a resource, and which a filter matches."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from kavka.model.errors import (
    ClusterAuthorizationFailed,
    DelegationTokenAuthorizationFailed,
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)

WILDCARD: Final = "*"
ANYBODY: Final = "User:*"
ANONYMOUS: Final = "User:ANONYMOUS"
CLUSTER_NAME: Final = "kafka-cluster"


class Named(IntEnum):
    """A number that has Kafka's name, in capitals and in the form of its tools."""

    @classmethod
    def of(cls, number: int) -> Named | None:
        """The member of a number from outside; None where Kafka would call it UNKNOWN."""
        return cls._value2member_map_.get(number)  # type: ignore[return-value]

    @property
    def title(self) -> str:
        """DELEGATION_TOKEN is DelegationToken."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class ResourceType(Named):
    """What rights are about."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(Named):
    """How the name in an ACL stands for the names of resources."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(Named):
    """What is done with a resource."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(Named):
    """Whether an ACL allows or denies."""

    ANY = 1
    DENY = 2
    ALLOW = 3


REFUSED: Final[Mapping[ResourceType, type[KafkaError]]] = {
    ResourceType.TOPIC: TopicAuthorizationFailed,
    ResourceType.GROUP: GroupAuthorizationFailed,
    ResourceType.CLUSTER: ClusterAuthorizationFailed,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
    ResourceType.DELEGATION_TOKEN: DelegationTokenAuthorizationFailed,
    ResourceType.USER: DelegationTokenAuthorizationFailed,
}
"""The error that says that a right on a resource is missing."""

_CONFIGS: Final = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
OPERATIONS: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.ALTER,
        *_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DESCRIBE, Operation.DELETE, *_CONFIGS),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.CLUSTER_ACTION,
        *_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
        Operation.ALTER,
        Operation.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""What can be done with each kind of resource, for the bits of KIP-430."""


class Acl(NamedTuple):
    """One ACL; tuples of the same name compare in the order in which Kafka looks at them."""

    resource_type: int
    resource_name: str
    pattern_type: int
    operation: int
    principal: str
    host: str
    permission_type: int

    def __str__(self) -> str:
        return (
            f"StandardAcl(resourceType={ResourceType(self.resource_type).name}, resourceName={self.resource_name}, "
            f"patternType={PatternType(self.pattern_type).name}, principal={self.principal}, host={self.host}, "
            f"operation={Operation(self.operation).name}, permissionType={PermissionType(self.permission_type).name})"
        )


class AclFilter(NamedTuple):
    """Which ACLs match: ANY or None stands for all."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    operation: int
    principal: str | None
    host: str | None
    permission_type: int

    @property
    def is_unknown(self) -> bool:
        """Whether a number in it has no meaning."""
        return (
            ResourceType.of(self.resource_type) is None
            or PatternType.of(self.pattern_type) is None
            or Operation.of(self.operation) is None
            or PermissionType.of(self.permission_type) is None
        )

    def matches(self, acl: Acl) -> bool:
        """Whether an ACL matches."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.operation in (Operation.ANY, acl.operation)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.permission_type in (PermissionType.ANY, acl.permission_type)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type != PatternType.MATCH:
            return self.resource_name == acl.resource_name
        if acl.pattern_type == PatternType.PREFIXED:
            return self.resource_name.startswith(acl.resource_name)
        return acl.resource_name in (self.resource_name, WILDCARD)


class Acls:
    """The ACLs in force, by the resources that they concern."""

    __slots__ = ("_lengths", "_literal", "_prefixed")

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._literal: dict[tuple[int, str], list[Acl]] = {}
        self._prefixed: dict[tuple[int, str], list[Acl]] = {}
        self._lengths: dict[int, Counter[int]] = {}
        for acl in acls:
            self.add(acl)

    def add(self, acl: Acl) -> None:
        """Add an ACL; one that is there already stays one."""
        rules = self._index(acl).setdefault((acl.resource_type, acl.resource_name), [])
        place = bisect_left(rules, acl)
        if place < len(rules) and rules[place] == acl:
            return
        rules.insert(place, acl)
        if acl.pattern_type == PatternType.PREFIXED:
            self._lengths.setdefault(acl.resource_type, Counter())[len(acl.resource_name)] += 1

    def remove(self, acl: Acl) -> None:
        """Remove an ACL."""
        index, key = self._index(acl), (acl.resource_type, acl.resource_name)
        if acl not in self:
            raise KeyError(acl)
        del index[key][bisect_left(index[key], acl)]
        if not index[key]:
            del index[key]
        if acl.pattern_type == PatternType.PREFIXED:
            lengths = self._lengths[acl.resource_type]
            lengths[len(acl.resource_name)] -= 1
            if not lengths[len(acl.resource_name)]:
                del lengths[len(acl.resource_name)]

    def _index(self, acl: Acl) -> dict[tuple[int, str], list[Acl]]:
        return self._prefixed if acl.pattern_type == PatternType.PREFIXED else self._literal

    def __contains__(self, acl: Acl) -> bool:
        rules = self._index(acl).get((acl.resource_type, acl.resource_name), ())
        place = bisect_left(rules, acl)
        return place < len(rules) and rules[place] == acl

    def __iter__(self) -> Iterator[Acl]:
        for index in (self._literal, self._prefixed):
            for acls in index.values():
                yield from acls

    def __len__(self) -> int:
        return sum(map(len, self._literal.values())) + sum(map(len, self._prefixed.values()))

    def of(self, resource_type: int, name: str) -> Iterator[Acl]:
        """The ACLs that concern a resource: by its name, by prefixes of it, by the wildcard."""
        yield from self._literal.get((resource_type, name), ())
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                yield from self._prefixed.get((resource_type, name[:length]), ())
        if not name.startswith(WILDCARD):  # the wildcard is no ACL for other names that begin like it
            yield from self._literal.get((resource_type, WILDCARD), ())

    def of_type(self, resource_type: int) -> Iterator[Acl]:
        """The ACLs that concern any resource of a type."""
        return (acl for acl in self if acl.resource_type == resource_type)

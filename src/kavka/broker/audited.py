"""What administrative requests do: for each API the operation, what it is done to, and what came of each.

The operation is the one that an ACL allows or denies; the resource is what is changed. Neither values of settings nor
secrets are told, only which of them were changed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kavka.metadata.image import ResourceType as ConfigType
from kavka.protocol.registry import ApiKey
from kavka.security.acl import CLUSTER_NAME, REFUSED, Operation, PatternType, PermissionType, ResourceType

DENIED: Final = frozenset(error.code for error in REFUSED.values())
"""The error codes of a missing right."""

TOPIC, GROUP, CLUSTER, USER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.USER


class Item(NamedTuple):
    """One thing that a request wants to change."""

    key: Hashable
    """What its answer is found by."""
    kind: ResourceType
    name: str
    detail: str = ""


Answer = tuple[Hashable, int]
"""By what an item is found, and its error code."""


class Audited(NamedTuple):
    """How a request of an API, and its answer, are read."""

    operation: Operation
    asked: Callable[[Any], Iterable[Item]]
    answered: Callable[[Any], Iterable[Answer]]


class Outcome(NamedTuple):
    """What came of one item."""

    item: Item
    code: int

    @property
    def allowed(self) -> bool:
        """Whether the right to it was there."""
        return self.code not in DENIED


def items(audited: Audited, request: Any) -> Iterator[Item]:
    """What a request wants to change; of one that only asks whether it could, that is said."""
    only_asks = bool(getattr(request, "validate_only", False))
    for item in audited.asked(request):
        yield item._replace(detail=f"validateOnly {item.detail}".rstrip()) if only_asks else item


def outcomes(audited: Audited, request: Any, response: Any) -> Iterator[Outcome]:
    """What came of each item of a request; `response` is its answer, or the error code that all of it has."""
    if isinstance(response, int):
        for item in items(audited, request):
            yield Outcome(item, response)
        return
    whole = getattr(response, "error_code", 0)
    codes = dict(audited.answered(response))
    for item in items(audited, request):
        yield Outcome(item, whole or codes.get(item.key, 0))


def _named(field: str, kind: ResourceType, name: str = "name", detail: str = "") -> Callable[[Any], Iterable[Item]]:
    """Items of a list that have a name, and maybe a number or list that tells more."""

    def asked(request: Any) -> Iterator[Item]:
        for row in getattr(request, field) or ():
            found = getattr(row, name)
            yield Item(found, kind, found, _told(row, detail))

    return asked


def _told(row: Any, field: str) -> str:
    if not field:
        return ""
    value = getattr(row, field)
    if isinstance(value, list):
        numbers = (getattr(each, "partition_index", each) for each in value[:100])
        return f"{field} {','.join(map(str, numbers))}"
    return f"{field} {value}"


def _rows(field: str, name: str, inner: str = "") -> Callable[[Any], Iterable[Answer]]:
    """The codes in a list of the answer: of the rows, or the first one in a list of theirs."""

    def answered(response: Any) -> Iterator[Answer]:
        for row in getattr(response, field):
            yield getattr(row, name), first_code(getattr(row, inner)) if inner else row.error_code

    return answered


def first_code(rows: Iterable[Any]) -> int:
    """The first error among rows, 0 if there is none."""
    return next((row.error_code for row in rows if row.error_code), 0)


def _by_place(field: str) -> Callable[[Any], Iterable[Answer]]:
    """The codes of a list that has a row for each item, in its order."""
    return lambda response: ((index, row.error_code) for index, row in enumerate(getattr(response, field)))


def _nothing(response: Any) -> Iterable[Answer]:
    """An answer with one code for all."""
    return ()


def _on_cluster(*fields: str) -> Callable[[Any], Iterable[Item]]:
    """A request that is one operation on the cluster; its fields tell more."""
    return lambda request: (Item(None, CLUSTER, CLUSTER_NAME, _fields(request, fields)),)


def _fields(request: Any, fields: Iterable[str]) -> str:
    return " ".join(f"{field} {getattr(request, field)}" for field in fields)


def _deleted_topics(request: Any) -> Iterator[Item]:
    for name in request.topic_names:
        yield Item(name, TOPIC, name)
    for row in request.topics:
        text = row.name if row.name is not None else str(row.topic_id)
        yield Item(text, TOPIC, text, "" if row.name is not None else "by id")


def _deletions(response: Any) -> Iterator[Answer]:
    for row in response.responses:
        yield str(row.topic_id), row.error_code
        if row.name is not None:
            yield row.name, row.error_code


def _new_acls(request: Any) -> Iterator[Item]:
    for index, row in enumerate(request.creations):
        pattern = (row.resource_type, row.resource_pattern_type, row.resource_name)
        yield Item(
            index, CLUSTER, CLUSTER_NAME, _acl(pattern, row.permission_type, row.operation, row.principal, row.host)
        )


def _old_acls(request: Any) -> Iterator[Item]:
    for index, row in enumerate(request.filters):
        pattern = (row.resource_type_filter, row.pattern_type_filter, row.resource_name_filter)
        principal, host = row.principal_filter, row.host_filter
        yield Item(index, CLUSTER, CLUSTER_NAME, _acl(pattern, row.permission_type, row.operation, principal, host))


def _acl(
    pattern: tuple[int, int, str | None], permission: int, operation: int, principal: str | None, host: str | None
) -> str:
    resource, pattern_type, name = pattern
    words = [
        _word(PermissionType, permission),
        "any principal" if principal is None else principal,
        _word(Operation, operation),
        f"{_word(ResourceType, resource)}:{_word(PatternType, pattern_type)}:{'any' if name is None else name}",
        f"from {'any' if host is None else host}",
    ]
    return " ".join(words)


def _word(numbers: type[PermissionType | Operation | ResourceType | PatternType], number: int) -> str:
    known = numbers.of(number)
    return str(number) if known is None else known.name


def _configs(request: Any) -> Iterator[Item]:
    for row in request.resources:
        kind, name = CLUSTER, CLUSTER_NAME
        if row.resource_type in (ConfigType.TOPIC, ConfigType.GROUP):
            kind, name = (TOPIC if row.resource_type == ConfigType.TOPIC else GROUP), row.resource_name
        keys = ",".join(sorted(config.name for config in row.configs[:100]))
        known = row.resource_type in iter(ConfigType)
        what = ConfigType(row.resource_type).name if known else str(row.resource_type)
        yield Item((row.resource_type, row.resource_name), kind, name, f"{what} {row.resource_name}: {keys}")


def _configured(response: Any) -> Iterator[Answer]:
    for row in response.responses:
        yield (row.resource_type, row.resource_name), row.error_code


def _quotas(request: Any) -> Iterator[Item]:
    for row in request.entries:
        keys = ",".join(op.key for op in row.ops[:100])
        yield Item(_entity(row), CLUSTER, CLUSTER_NAME, f"{_entity(row)}: {keys}")


def _limited(response: Any) -> Iterator[Answer]:
    return ((_entity(row), row.error_code) for row in response.entries)


def _entity(row: Any) -> str:
    parts = (f"{part.entity_type} {part.entity_name or '<default>'}" for part in row.entity)
    return " ".join(sorted(parts))


def _credentials(request: Any) -> Iterator[Item]:
    for word, rows in (("delete", request.deletions), ("set", request.upsertions)):
        for row in rows:
            yield Item(row.name, USER, row.name, f"{word} mechanism {row.mechanism}")


def _moved(request: Any) -> Iterator[Item]:
    for directory in request.dirs:
        for topic in directory.topics:
            yield Item(topic.name, TOPIC, topic.name, f"to {directory.path}")


def _elected(request: Any) -> Iterable[Item]:
    if request.topic_partitions is None:
        return (Item(None, CLUSTER, CLUSTER_NAME, "all partitions"),)
    return _named("topic_partitions", TOPIC, "topic", "partitions")(request)


def _on_group(request: Any) -> Iterable[Item]:
    names = (str(getattr(topic, "name", "") or getattr(topic, "topic_name", "")) for topic in request.topics[:100])
    return (Item(None, GROUP, request.group_id, f"topics {','.join(names)}"),)


def _of_topics(field: str, inner: str = "partitions") -> Callable[[Any], Iterable[Answer]]:
    """One code for a request about several topics: the first error."""

    def answered(response: Any) -> Iterable[Answer]:
        rows = getattr(response, field)
        return ((None, first_code([part for row in rows for part in getattr(row, inner)] if inner else rows)),)

    return answered


def _new_token(request: Any) -> Iterable[Item]:
    owner = f"{request.owner_principal_type}:{request.owner_principal_name}" if request.owner_principal_name else ""
    return (Item(None, USER, owner, "for itself" if not owner else ""),)


def _token(request: Any) -> Iterable[Item]:
    return (Item(None, ResourceType.DELEGATION_TOKEN, ""),)  # known by its secret only


ADMINISTRATIVE: Final[Mapping[int, Audited]] = {
    ApiKey.CREATE_TOPICS: Audited(
        Operation.CREATE, _named("topics", TOPIC, detail="num_partitions"), _rows("topics", "name")
    ),
    ApiKey.DELETE_TOPICS: Audited(Operation.DELETE, _deleted_topics, _deletions),
    ApiKey.DELETE_RECORDS: Audited(
        Operation.DELETE, _named("topics", TOPIC, detail="partitions"), _rows("topics", "name", "partitions")
    ),
    ApiKey.CREATE_PARTITIONS: Audited(
        Operation.ALTER, _named("topics", TOPIC, detail="count"), _rows("results", "name")
    ),
    ApiKey.CREATE_ACLS: Audited(Operation.ALTER, _new_acls, _by_place("results")),
    ApiKey.DELETE_ACLS: Audited(Operation.ALTER, _old_acls, _by_place("filter_results")),
    ApiKey.ALTER_CONFIGS: Audited(Operation.ALTER_CONFIGS, _configs, _configured),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Audited(Operation.ALTER_CONFIGS, _configs, _configured),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Audited(Operation.ALTER, _moved, _rows("results", "topic_name", "partitions")),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Audited(
        Operation.ALTER, _named("topics", TOPIC, detail="partitions"), _rows("responses", "name", "partitions")
    ),
    ApiKey.ELECT_LEADERS: Audited(
        Operation.ALTER, _elected, _rows("replica_election_results", "topic", "partition_result")
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: Audited(Operation.ALTER_CONFIGS, _quotas, _limited),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Audited(Operation.ALTER, _credentials, _rows("results", "user")),
    ApiKey.UPDATE_FEATURES: Audited(
        Operation.ALTER,
        lambda request: (
            Item(row.feature, CLUSTER, CLUSTER_NAME, f"{row.feature} {row.max_version_level}")
            for row in request.feature_updates
        ),
        _rows("results", "feature"),
    ),
    ApiKey.UNREGISTER_BROKER: Audited(Operation.ALTER, _on_cluster("broker_id"), _nothing),
    ApiKey.ADD_RAFT_VOTER: Audited(Operation.ALTER, _on_cluster("voter_id", "voter_directory_id"), _nothing),
    ApiKey.REMOVE_RAFT_VOTER: Audited(Operation.ALTER, _on_cluster("voter_id", "voter_directory_id"), _nothing),
    ApiKey.CREATE_DELEGATION_TOKEN: Audited(Operation.CREATE_TOKENS, _new_token, _nothing),
    ApiKey.RENEW_DELEGATION_TOKEN: Audited(Operation.ALTER, _token, _nothing),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Audited(Operation.DELETE, _token, _nothing),
    ApiKey.DELETE_GROUPS: Audited(
        Operation.DELETE,
        lambda request: (Item(name, GROUP, name) for name in request.groups_names),
        _rows("results", "group_id"),
    ),
    ApiKey.OFFSET_DELETE: Audited(Operation.DELETE, _on_group, _of_topics("topics")),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Audited(Operation.READ, _on_group, _of_topics("responses")),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Audited(Operation.DELETE, _on_group, _of_topics("responses", "")),
}
"""Every API that changes something an administrator answers for."""

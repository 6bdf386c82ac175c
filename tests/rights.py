"""What each API takes the right to, as one table: a request, the rights that it needs, and the error for each of them.

`rights_in_part` has more rows, of rights that only a part of an answer takes; `rights_asked` says who asks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kavka.model.types import Uuid
from kavka.protocol.registry import API, Api
from kavka.protocol.schema import REQUIRED, Array, Message, Struct, build_default, fields_of
from kavka.records.builder import BatchBuilder
from kavka.security.acl import CLUSTER_NAME, REFUSED, WILDCARD, Operation, ResourceType

TOPIC, NEW_TOPIC, GROUP, TXN, OWNER = "rights-topic", "rights-new", "rights-group", "rights-txn", "User:owner"
SHARE, STREAMS, COUNTING, COUNTS = "rights-share", "rights-streams", "rights-counting", "rights-counts"
LIVE_CONSUMERS, LIVE_SHARE, LIVE_STREAMS = "rights-live-consumers", "rights-live-share", "rights-live-streams"
"""Groups with a member that is subscribed to the topic."""
MAY_NOT_CREATE = f"; Unauthorized to CREATE on topics {COUNTS}."
MEMBER = "mmmmmmmmmmmmmmmmmmmmmA"
TOPIC_ID = Uuid(b"the topic's id!!")
"""Stands for the id that the topic turns out to have."""
REFUSALS = frozenset(error.code for error in REFUSED.values())
BY_STEM = {api.stem: api for api in API.values()}


class Right(NamedTuple):
    """An operation on a resource."""

    operation: Operation
    resource_type: ResourceType
    name: str

    @property
    def code(self) -> int:
        """The error where it is missing."""
        return REFUSED[self.resource_type].code

    def __str__(self) -> str:
        return f"{self.operation.title}-{self.resource_type.title}"


def on_topic(operation: str, name: str = TOPIC) -> Right:
    return Right(Operation[operation], ResourceType.TOPIC, name)


def on_group(operation: str, name: str = GROUP) -> Right:
    return Right(Operation[operation], ResourceType.GROUP, name)


def on_txn(operation: str) -> Right:
    return Right(Operation[operation], ResourceType.TRANSACTIONAL_ID, TXN)


def on_cluster(operation: str) -> Right:
    return Right(Operation[operation], ResourceType.CLUSTER, CLUSTER_NAME)


def refusals(response: Any) -> set[int]:
    """The errors of missing rights, wherever they are in a response."""
    found: set[int] = set()
    for field in fields_of(type(response)):
        value = getattr(response, field.name)
        if field.name in ("error_code", "partition_error_code") and value in REFUSALS:
            found.add(value)
        for one in value if isinstance(value, list) else (value,):
            if isinstance(one, Message):
                found |= refusals(one)
    return found


@dataclass(frozen=True)
class Case:
    """One way to use an API."""

    stem: str
    version: int
    body: dict[str, Any]
    needs: tuple[Right, ...]
    codes: tuple[int, ...] = ()
    """The error for each right where it is not that of the resource; 0 for one that is only not shown."""
    shown: Callable[[Any], object] | None = None
    """What of the response is there for those who may see it, and not for others."""
    how: str = ""

    @property
    def api(self) -> Api:
        return BY_STEM[self.stem]

    def request(self, topic_id: Uuid) -> Any:
        return build(self.api.request(), self.body, topic_id)

    def code(self, missing: int) -> int:
        return self.codes[missing] if self.codes else self.needs[missing].code

    def __str__(self) -> str:
        return f"{self.stem}{'-' if self.how else ''}{self.how}"


def build(cls: type, values: dict[str, Any], topic_id: Uuid = TOPIC_ID) -> Any:
    """A message of plain values, with defaults for what is not given."""
    made: Any = build_default(cls)
    for field in fields_of(cls):
        if field.name in values:
            setattr(made, field.name, _value(field.type, values[field.name], topic_id))
        elif field.nullable and field.default is REQUIRED:
            setattr(made, field.name, None)
    unknown = values.keys() - {field.name for field in fields_of(cls)}
    assert not unknown, f"{cls.__name__} has no {unknown}"
    return made


def _value(kind: Any, value: Any, topic_id: Uuid) -> Any:
    if isinstance(kind, Array) and value is not None:
        return [_value(kind.element, one, topic_id) for one in value]
    if isinstance(kind, Struct) and isinstance(value, dict):
        return build(kind.cls, value, topic_id)
    return topic_id if value == TOPIC_ID else value


def batch(**values: Any) -> bytes:
    builder = BatchBuilder(**values)
    builder.append(None, b"x", 1)
    return bytes(builder.build())


def produce(records: bytes, transactional_id: str | None = None) -> dict[str, Any]:
    data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": records}]}]
    return {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 10_000, "topic_data": data}


def fetch(replica_id: int = -1) -> dict[str, Any]:
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    return {
        "replica_id": replica_id,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1000,
        "topics": [{"topic": TOPIC, "partitions": [wanted]}],
    }


def create_topic(name: str = NEW_TOPIC) -> dict[str, Any]:
    return {"topics": [{"name": name, "num_partitions": 1, "replication_factor": 1}], "validate_only": True}


def on_resource(kind: int, name: str, **row: Any) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, **row}


ROWS = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
PRODUCER = {"transactional_id": TXN, "producer_id": 7, "producer_epoch": 0}
JOIN = {"group_id": GROUP, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "protocol_type": "consumer"}
ANY_RULE = {"pattern_type_filter": 1, "resource_type_filter": 1, "operation": 1, "permission_type": 1}
NO_RULE = {**ANY_RULE, "resource_type_filter": 2, "resource_name_filter": "nothing", "pattern_type_filter": 3}
RULE = {
    "resource_type": 2,
    "resource_name": "t",
    "principal": "User:x",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
VOTER = {"cluster_id": None, "voter_id": 99, "voter_directory_id": Uuid(b"d" * 16)}
STATE = {"group_id": GROUP, "topics": [{"topic_id": Uuid(b"t" * 16), "partitions": [{"partition": 0}]}]}
TXN_TOPICS = [{"name": TOPIC, "partitions": [0]}]
MARKER = {"producer_id": 7, "producer_epoch": 0, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}
BROKER_CONFIG, TOPIC_CONFIG, GROUP_CONFIG = (4, "1"), (2, TOPIC), (32, GROUP)

CASES = [
    Case("produce", 9, produce(batch()), (on_topic("WRITE"),)),
    Case(
        "produce",
        9,
        produce(batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True), TXN),
        (on_txn("WRITE"), on_topic("WRITE")),
        how="transactional",
    ),
    Case("fetch", 12, fetch(), (on_topic("READ"),)),
    Case("fetch", 12, fetch(1), (on_cluster("CLUSTER_ACTION"),), (29,), how="follower"),
    Case(
        "list_offsets",
        7,
        {"replica_id": -1, "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
        (on_topic("DESCRIBE"),),
    ),
    Case("metadata", 9, {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}, (on_topic("DESCRIBE"),)),
    Case(
        "metadata",
        9,
        {"topics": [{"name": f"{NEW_TOPIC}-1"}], "allow_auto_topic_creation": True},
        (on_topic("DESCRIBE", f"{NEW_TOPIC}-1"), on_topic("CREATE", f"{NEW_TOPIC}-1")),
        how="creating",
    ),
    Case(
        "metadata",
        9,
        {"topics": [{"name": f"{NEW_TOPIC}-2"}], "allow_auto_topic_creation": True},
        (on_topic("DESCRIBE", f"{NEW_TOPIC}-2"), on_cluster("CREATE")),
        (29, 29),
        how="creating-any",
    ),
    Case(
        "metadata",
        9,
        {"topics": None},
        (on_topic("DESCRIBE"),),
        (0,),
        shown=lambda answer: {one.name for one in answer.topics} & {TOPIC},
        how="all",
    ),
    Case(
        "offset_commit",
        8,
        {"group_id": GROUP, "topics": [{"name": TOPIC, "partitions": ROWS}]},
        (on_group("READ"), on_topic("READ")),
    ),
    Case(
        "offset_fetch",
        8,
        {"groups": [{"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}]},
        (on_group("DESCRIBE"), on_topic("DESCRIBE")),
    ),
    Case("find_coordinator", 4, {"key_type": 0, "coordinator_keys": [GROUP]}, (on_group("DESCRIBE"),), how="group"),
    Case("find_coordinator", 4, {"key_type": 1, "coordinator_keys": [TXN]}, (on_txn("DESCRIBE"),), how="transaction"),
    Case(
        "find_coordinator",
        6,
        {"key_type": 2, "coordinator_keys": [f"{GROUP}:{Uuid(b't' * 16)}:0"]},
        (on_cluster("CLUSTER_ACTION"),),
        how="share",
    ),
    Case("join_group", 5, {**JOIN, "protocols": [{"name": "range", "metadata": b""}]}, (on_group("READ"),)),
    Case("heartbeat", 4, {"group_id": GROUP, "generation_id": 1, "member_id": "m"}, (on_group("READ"),)),
    Case("leave_group", 4, {"group_id": GROUP, "members": [{"member_id": "m"}]}, (on_group("READ"),)),
    Case("sync_group", 4, {"group_id": GROUP, "generation_id": 1, "member_id": "m"}, (on_group("READ"),)),
    Case("describe_groups", 5, {"groups": [GROUP]}, (on_group("DESCRIBE"),)),
    *(
        Case(
            "list_groups",
            4,
            {},
            (right,),
            (0,),
            shown=lambda answer: {one.group_id for one in answer.groups} & {GROUP},
            how=str(right),
        )
        for right in (on_group("DESCRIBE"), on_cluster("DESCRIBE"))
    ),
    Case("create_topics", 7, create_topic(), (on_topic("CREATE", NEW_TOPIC),)),
    Case("create_topics", 7, create_topic(), (on_cluster("CREATE"),), (29,), how="any"),
    Case("delete_topics", 5, {"topic_names": ["gone"], "timeout_ms": 1000}, (on_topic("DELETE", "gone"),)),
    Case(
        "delete_records",
        2,
        {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout_ms": 1000},
        (on_topic("DELETE"),),
    ),
    Case("init_producer_id", 4, {"transactional_id": TXN, "transaction_timeout_ms": 1000}, (on_txn("WRITE"),)),
    Case("init_producer_id", 4, {"transactional_id": None}, (on_cluster("IDEMPOTENT_WRITE"),), how="idempotent"),
    Case("init_producer_id", 4, {"transactional_id": None}, (on_topic("WRITE"),), (31,), how="any-topic"),
    *(
        Case(
            "offset_for_leader_epoch",
            4,
            {"topics": [{"topic": TOPIC, "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
            (right,),
            (29,),
            how=str(right),
        )
        for right in (on_topic("DESCRIBE"), on_cluster("CLUSTER_ACTION"))
    ),
    Case(
        "add_partitions_to_txn",
        3,
        {
            **{f"v3_and_below_{name}": value for name, value in PRODUCER.items()},
            "v3_and_below_topics": TXN_TOPICS,
        },
        (on_txn("WRITE"), on_topic("WRITE")),
    ),
    Case(
        "add_partitions_to_txn",
        4,
        {"transactions": [{**PRODUCER, "topics": TXN_TOPICS}]},
        (on_cluster("CLUSTER_ACTION"),),
        how="broker",
    ),
    Case("add_offsets_to_txn", 3, {**PRODUCER, "group_id": GROUP}, (on_txn("WRITE"), on_group("READ"))),
    Case("end_txn", 3, {**PRODUCER, "committed": True}, (on_txn("WRITE"),)),
    *(
        Case("write_txn_markers", 1, {"markers": [MARKER]}, (on_cluster(right),), how=right)
        for right in ("ALTER", "CLUSTER_ACTION")
    ),
    Case(
        "txn_offset_commit",
        3,
        {**PRODUCER, "group_id": GROUP, "topics": [{"name": TOPIC, "partitions": ROWS}]},
        (on_txn("WRITE"), on_group("READ"), on_topic("READ")),
    ),
    Case("describe_acls", 3, ANY_RULE, (on_cluster("DESCRIBE"),)),
    Case("create_acls", 3, {"creations": [{**RULE, "permission_type": 3}]}, (on_cluster("ALTER"),)),
    Case("delete_acls", 3, {"filters": [NO_RULE]}, (on_cluster("ALTER"),)),
    *(
        Case("describe_configs", 4, {"resources": [on_resource(*resource)]}, (right,), how=str(right))
        for resource, right in (
            (TOPIC_CONFIG, on_topic("DESCRIBE_CONFIGS")),
            (BROKER_CONFIG, on_cluster("DESCRIBE_CONFIGS")),
            (GROUP_CONFIG, on_group("DESCRIBE_CONFIGS")),
        )
    ),
    *(
        Case(stem, 1, {"resources": [on_resource(*resource)], "validate_only": True}, (right,), how=str(right))
        for stem in ("alter_configs", "incremental_alter_configs")
        for resource, right in (
            (TOPIC_CONFIG, on_topic("ALTER_CONFIGS")),
            (BROKER_CONFIG, on_cluster("ALTER_CONFIGS")),
            (GROUP_CONFIG, on_group("ALTER_CONFIGS")),
        )
    ),
    Case(
        "alter_replica_log_dirs",
        2,
        {"dirs": [{"path": "/nowhere", "topics": [{"name": "t", "partitions": [0]}]}]},
        (on_cluster("ALTER"),),
    ),
    Case("describe_log_dirs", 3, {"topics": []}, (on_cluster("DESCRIBE"),)),
    Case(
        "create_partitions",
        3,
        {"topics": [{"name": TOPIC, "count": 5}], "timeout_ms": 1000, "validate_only": True},
        (on_topic("ALTER"),),
    ),
    Case(
        "create_delegation_token",
        3,
        {"owner_principal_type": "User", "owner_principal_name": "owner", "max_lifetime_ms": 60_000},
        (Right(Operation.CREATE_TOKENS, ResourceType.USER, OWNER),),
    ),
    Case(
        "describe_delegation_token",
        3,
        {"owners": [{"principal_type": "User", "principal_name": "owner"}]},
        (Right(Operation.DESCRIBE_TOKENS, ResourceType.USER, OWNER),),
        (0,),
        shown=lambda answer: {one.principal_name for one in answer.tokens},
    ),
    Case(
        "describe_delegation_token",
        3,
        {"owners": None},
        (Right(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, WILDCARD),),
        (0,),
        shown=lambda answer: {one.principal_name for one in answer.tokens} & {"owner"},
        how="by-token",
    ),
    Case("create_delegation_token", 3, {"owner_principal_type": None, "owner_principal_name": None}, (), how="own"),
    Case(
        "alter_client_quotas",
        1,
        {"entries": [{"entity": [{"entity_type": "user", "entity_name": "x"}], "ops": []}], "validate_only": True},
        (on_cluster("ALTER_CONFIGS"),),
    ),
    Case("describe_client_quotas", 1, {"components": [], "strict": False}, (on_cluster("DESCRIBE_CONFIGS"),)),
    Case(
        "share_group_heartbeat",
        1,
        {"group_id": SHARE, "member_id": "a" * 22, "subscribed_topic_names": [TOPIC]},
        (on_group("READ", SHARE), on_topic("DESCRIBE")),
    ),
    *(
        Case(stem, version, {"group_ids": [group]}, (on_group("DESCRIBE", group), on_topic("DESCRIBE")), how="live")
        for stem, version, group in (
            ("consumer_group_describe", 1, LIVE_CONSUMERS),
            ("share_group_describe", 1, LIVE_SHARE),
            ("streams_group_describe", 0, LIVE_STREAMS),
        )
    ),
    Case("share_group_describe", 1, {"group_ids": [SHARE]}, (on_group("DESCRIBE", SHARE),)),
    Case(
        "share_fetch",
        1,
        {
            "group_id": SHARE,
            "member_id": MEMBER,
            "max_records": 1,
            "max_bytes": 1000,
            "topics": [{"topic_id": TOPIC_ID, "partitions": [{"partition_index": 0}]}],
        },
        (on_group("READ", SHARE), on_topic("READ")),
    ),
    Case(
        "share_acknowledge",
        1,
        {"group_id": SHARE, "member_id": "a" * 22, "share_session_epoch": 1},
        (on_group("READ", SHARE),),
    ),
    Case(
        "describe_share_group_offsets",
        0,
        {"groups": [{"group_id": SHARE, "topics": [{"topic_name": TOPIC, "partitions": [0]}]}]},
        (on_group("DESCRIBE", SHARE), on_topic("DESCRIBE")),
    ),
    Case("alter_share_group_offsets", 0, {"group_id": SHARE}, (on_group("READ", SHARE),)),
    Case("delete_share_group_offsets", 0, {"group_id": SHARE}, (on_group("DELETE", SHARE),)),
    Case(
        "streams_group_heartbeat",
        0,
        {
            "group_id": STREAMS,
            "member_id": "a" * 22,
            "rebalance_timeout_ms": 1000,
            "process_id": "p",
            "topology": {"subtopologies": [{"subtopology_id": "0", "source_topics": [TOPIC]}]},
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
        },
        (on_group("READ", STREAMS), on_topic("DESCRIBE")),
    ),
    Case(
        "streams_group_heartbeat",
        0,
        {
            "group_id": COUNTING,
            "member_id": "a" * 22,
            "rebalance_timeout_ms": 1000,
            "process_id": "p",
            "topology": {
                "subtopologies": [
                    {"subtopology_id": "0", "source_topics": [TOPIC], "state_changelog_topics": [{"name": COUNTS}]}
                ]
            },
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
        },
        (on_group("READ", COUNTING), on_topic("DESCRIBE"), on_topic("DESCRIBE", COUNTS), on_topic("CREATE", COUNTS)),
        codes=(30, 29, 29, 0),
        shown=lambda answer: not [one for one in answer.status if one.status_detail.endswith(MAY_NOT_CREATE)],
        how="with a topic to be made",
    ),
    Case("streams_group_describe", 0, {"group_ids": [STREAMS]}, (on_group("DESCRIBE", STREAMS), on_topic("DESCRIBE"))),
    Case("delete_groups", 2, {"groups_names": ["gone"]}, (Right(Operation.DELETE, ResourceType.GROUP, "gone"),)),
    Case(
        "elect_leaders",
        2,
        {"topic_partitions": [{"topic": TOPIC, "partitions": [0]}], "timeout_ms": 1000},
        (on_cluster("ALTER"),),
    ),
    Case("alter_partition_reassignments", 0, {"topics": []}, (on_cluster("ALTER"),)),
    Case("list_partition_reassignments", 0, {"topics": None}, (on_cluster("DESCRIBE"),)),
    Case(
        "offset_delete",
        0,
        {"group_id": GROUP, "topics": [{"name": TOPIC, "partitions": [{"partition_index": 5}]}]},
        (on_group("DELETE"), on_topic("READ")),
    ),
    Case("describe_user_scram_credentials", 0, {"users": [{"name": "nobody"}]}, (on_cluster("DESCRIBE"),)),
    Case(
        "alter_user_scram_credentials", 0, {"deletions": [{"name": "nobody", "mechanism": 1}]}, (on_cluster("ALTER"),)
    ),
    Case(
        "describe_quorum",
        1,
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
        (on_cluster("DESCRIBE"),),
    ),
    Case("update_features", 1, {"feature_updates": [], "validate_only": True}, (on_cluster("ALTER"),)),
    Case("describe_producers", 0, {"topics": [{"name": TOPIC, "partition_indexes": [0]}]}, (on_topic("READ"),)),
    Case("unregister_broker", 0, {"broker_id": 99}, (on_cluster("ALTER"),)),
    Case("describe_transactions", 0, {"transactional_ids": [TXN]}, (on_txn("DESCRIBE"),)),
    Case(
        "list_transactions",
        0,
        {},
        (on_txn("DESCRIBE"),),
        (0,),
        shown=lambda answer: {one.transactional_id for one in answer.transaction_states} & {TXN},
    ),
    Case(
        "consumer_group_heartbeat",
        0,
        {
            "group_id": f"{GROUP}-8",
            "member_id": "a" * 22,
            "rebalance_timeout_ms": 1000,
            "subscribed_topic_names": [TOPIC],
            "topic_partitions": [],
        },
        (Right(Operation.READ, ResourceType.GROUP, f"{GROUP}-8"), on_topic("DESCRIBE")),
    ),
    Case("consumer_group_describe", 0, {"group_ids": [GROUP]}, (on_group("DESCRIBE"),)),
    Case("list_config_resources", 1, {}, (on_cluster("DESCRIBE_CONFIGS"),)),
    Case("describe_topic_partitions", 0, {"topics": [{"name": TOPIC}]}, (on_topic("DESCRIBE"),)),
    Case("add_raft_voter", 0, VOTER, (on_cluster("ALTER"),)),
    Case("remove_raft_voter", 0, VOTER, (on_cluster("ALTER"),)),
    *(
        Case(f"{verb}_share_group_state{more}", 0, STATE, (on_cluster("CLUSTER_ACTION"),))
        for verb, more in (("initialize", ""), ("read", ""), ("write", ""), ("delete", ""), ("read", "_summary"))
    ),
]


_NOT_OURS = {"cluster_id": "AAAAAAAAAAAAAAAAAAAAAA"}
CONTROLLERS_LOGGER = {"resources": [on_resource(8, "1")], "validate_only": True}
CONTROLLER_CASES = [
    Case(stem, BY_STEM[stem].max_version, body, (on_cluster("CLUSTER_ACTION"),), how="controller")
    for stem, body in (
        ("fetch", _NOT_OURS),
        ("vote", _NOT_OURS),
        ("begin_quorum_epoch", _NOT_OURS),
        ("end_quorum_epoch", _NOT_OURS),
        ("alter_partition", {"broker_id": 99}),
        ("envelope", {}),
        ("fetch_snapshot", _NOT_OURS),
        ("broker_registration", {**_NOT_OURS, "broker_id": 99}),
        ("broker_heartbeat", {"broker_id": 99}),
        ("allocate_producer_ids", {"broker_id": 99}),
        ("controller_registration", {"controller_id": 99}),
        ("assign_replicas_to_dirs", {"broker_id": 99}),
        ("update_raft_voter", _NOT_OURS),
        ("incremental_alter_configs", CONTROLLERS_LOGGER),
    )
]
"""What only controllers serve, or take another right for: a right that is there leads to an error of another kind."""
CONTROLLER_VARIANTS = [(case, missing, f"c{missing}") for case in CONTROLLER_CASES for missing in (True, False)]


NOBODY_IS_ASKED = {
    "api_versions": "it is how connections begin",
    "describe_cluster": "only the operations in it are for those who may describe the cluster",
    "expire_delegation_token": "tokens are their owners' and renewers'",
    "get_telemetry_subscriptions": "clients are measured for the operator, whoever they are",
    "push_telemetry": "clients are measured for the operator, whoever they are",
    "renew_delegation_token": "tokens are their owners' and renewers'",
    "sasl_authenticate": "it is how clients log in",
    "sasl_handshake": "it is how clients log in",
}
"""The APIs of brokers that take no right."""

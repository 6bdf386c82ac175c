"""Rights that a part of an answer takes, or one kind of what an API is asked about: more rows of the table."""

from __future__ import annotations

from typing import Any

from rights import (
    MEMBER,
    NEW_TOPIC,
    SHARE,
    STREAMS,
    TOPIC,
    TXN,
    Case,
    Right,
    create_topic,
    on_cluster,
    on_group,
    on_resource,
    on_topic,
    on_txn,
)

OPEN_TXN = f"{TXN}-open"
"""A transactional id with a transaction that the topic is part of."""
NEW_SHARE = f"{SHARE}-new"
"""A share group that is not there before it is moved, and has no members."""
LOGGER_CONFIG, METRICS_CONFIG = (8, "1"), (16, "rights-metrics")


def on_open_txn(operation: str) -> Right:
    return on_txn(operation)._replace(name=OPEN_TXN)


def changelog(group: str) -> str:
    """The internal topic of a streams group."""
    return f"{group}-store-changelog"


def joining(group: str) -> dict[str, Any]:
    """A member of a streams group that needs an internal topic."""
    needed = {"name": changelog(group), "partitions": 0, "replication_factor": 1, "topic_configs": []}
    subtopology = {"subtopology_id": "0", "source_topics": [TOPIC], "state_changelog_topics": [needed]}
    return {
        "group_id": group,
        "member_id": MEMBER,
        "rebalance_timeout_ms": 1000,
        "process_id": "p",
        "topology": {"subtopologies": [subtopology]},
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
    }


def may_create(answer: Any) -> bool:
    """Whether a member of a streams group is not told that it may not create internal topics."""
    return not any("Unauthorized" in status.status_detail for status in answer.status or ())


MOVE = [{"topic_name": TOPIC, "partitions": [{"partition_index": 0, "start_offset": 0}]}]

CASES_IN_PART = [
    Case(
        "create_topics",
        7,
        create_topic(),
        (on_topic("CREATE", NEW_TOPIC), on_topic("DESCRIBE_CONFIGS", NEW_TOPIC)),
        (29, 0),
        shown=lambda answer: answer.topics[0].topic_config_error_code == 0,
        how="configs",
    ),
    Case("delete_topics", 5, {"topic_names": ["gone"], "timeout_ms": 1000}, (on_cluster("DELETE"),), (29,), how="any"),
    Case(
        "init_producer_id",
        6,
        {"transactional_id": TXN, "transaction_timeout_ms": 1000, "enable2_pc": True},
        (on_txn("WRITE"), on_txn("TWO_PHASE_COMMIT")),
        how="two-phases",
    ),
    *(
        Case(
            stem,
            version,
            {"resources": [on_resource(*resource)], **how_to},
            (on_cluster(right),),
            how=f"{kind}-{right}",
        )
        for stem, version, how_to, right, kinds in (
            ("describe_configs", 4, {}, "DESCRIBE_CONFIGS", ("logger", "metrics")),
            ("alter_configs", 1, {"validate_only": True}, "ALTER_CONFIGS", ("metrics",)),
            ("incremental_alter_configs", 1, {"validate_only": True}, "ALTER_CONFIGS", ("logger", "metrics")),
        )
        for kind, resource in (("logger", LOGGER_CONFIG), ("metrics", METRICS_CONFIG))
        if kind in kinds
    ),
    Case(
        "describe_transactions",
        0,
        {"transactional_ids": [OPEN_TXN]},
        (on_open_txn("DESCRIBE"), on_topic("DESCRIBE")),
        (53, 0),
        shown=lambda answer: [one.topic for one in answer.transaction_states[0].topics] == [TOPIC],
        how="topics",
    ),
    Case(
        "alter_share_group_offsets",
        0,
        {"group_id": NEW_SHARE, "topics": MOVE},
        (on_group("READ", NEW_SHARE), on_topic("READ")),
        how="topics",
    ),
    # the group is there by now: of one that is not, that is all that Kafka says
    Case(
        "delete_share_group_offsets",
        0,
        {"group_id": NEW_SHARE, "topics": [{"topic_name": TOPIC}]},
        (on_group("DELETE", NEW_SHARE), on_topic("READ")),
        how="topics",
    ),
    *(
        Case(
            "streams_group_heartbeat",
            0,
            joining(group),
            (on_group("READ", group), on_topic("DESCRIBE"), on_topic("DESCRIBE", changelog(group)), right),
            (30, 29, 29, 0),
            shown=may_create,
            how=f"internal-topics-{right}",
        )
        for group, right in (
            (f"{STREAMS}-1", on_topic("CREATE", changelog(f"{STREAMS}-1"))),
            (f"{STREAMS}-2", on_cluster("CREATE")),
        )
    ),
]

OF_BROKERS_ALONE = {
    "describe_delegation_token": "Kafka's controllers do not answer it",
    "describe_user_scram_credentials": "Kafka's controllers do not answer it",
    "fetch": "a controller gives its log, and asks for ClusterAction",
    "incremental_alter_configs-logger-ALTER_CONFIGS": "a controller's loggers take ClusterAction",
}
"""What a controller is not asked as a broker is, by API or case."""

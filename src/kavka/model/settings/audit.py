"""The settings of the audit log: what is written of who did what, and where it goes."""

from __future__ import annotations

from typing import Any, Final

from kavka.model.settings.types import (
    AT_LEAST_1,
    BOOLEAN,
    INT,
    LONG,
    NOT_EMPTY,
    SET,
    SHORT,
    STRING,
    Setting,
    at_least,
    collect,
    some_of,
)

KAVKA_AUDIT_ENABLE = BOOLEAN(
    "kavka.audit.enable",
    False,
    doc="Whether the node keeps an audit log: who did what, from where, and what came of it.",
    internal=True,
)
KAVKA_AUDIT_DIR = STRING.optional(
    "kavka.audit.dir",
    NOT_EMPTY,
    doc="The directory of the audit log; else kavka-audit in the first log.dirs.",
    internal=True,
)
KAVKA_AUDIT_ALLOWED = SET(
    "kavka.audit.allowed",
    ("admin",),
    doc="What is written when it is allowed: `admin`, `data`, `other`, `all`, or names of APIs (CreateTopics,Fetch).",
    internal=True,
)
KAVKA_AUDIT_DENIED = SET(
    "kavka.audit.denied",
    ("all",),
    doc="What is written when it is denied, in the same words; empty for nothing.",
    internal=True,
)
KAVKA_AUDIT_RESOURCES = SET(
    "kavka.audit.resources",
    (),
    some_of("topic", "group", "cluster", "transactional_id", "delegation_token", "user"),
    doc="Only operations on these kinds of resources are written; empty for all.",
    internal=True,
)
KAVKA_AUDIT_LOGINS = SET(
    "kavka.audit.logins",
    ("failed",),
    some_of("succeeded", "failed"),
    doc="Which log-ins (SASL, and those of the registry) are written: `succeeded`, `failed`; empty for none.",
    internal=True,
)
KAVKA_AUDIT_FSYNC = BOOLEAN(
    "kavka.audit.fsync",
    False,
    doc="Whether an administrative operation is answered only when its entry is forced to the disk.",
    internal=True,
)
KAVKA_AUDIT_SEGMENT_BYTES = INT(
    "kavka.audit.segment.bytes",
    16 << 20,
    at_least(1024),
    doc="How large a file of the audit log gets before the next one begins.",
    internal=True,
)
KAVKA_AUDIT_RETENTION_BYTES = LONG(
    "kavka.audit.retention.bytes",
    1 << 30,
    at_least(-1),
    doc="How large the files may be together before the oldest go, -1 for ever; what the topic lacks stays.",
    internal=True,
)
KAVKA_AUDIT_INTERVAL_MS = LONG(
    "kavka.audit.interval.ms",
    60_000,
    AT_LEAST_1,
    doc="Operations other than `admin` that are repeated within this time are counted in one entry.",
    internal=True,
)
KAVKA_AUDIT_TOPIC_ENABLE = BOOLEAN(
    "kavka.audit.topic.enable",
    False,
    doc="Whether the entries of all nodes are also written to the topic __kavka_audit.",
    internal=True,
)
KAVKA_AUDIT_TOPIC_NUM_PARTITIONS = INT(
    "kavka.audit.topic.num.partitions",
    1,
    AT_LEAST_1,
    doc="How many partitions __kavka_audit is created with; the entries of a node are all in one.",
    internal=True,
)
KAVKA_AUDIT_TOPIC_REPLICATION_FACTOR = SHORT(
    "kavka.audit.topic.replication.factor",
    3,
    AT_LEAST_1,
    doc="How many replicas __kavka_audit is created with; by default no more than there are brokers.",
    internal=True,
)
KAVKA_AUDIT_TOPIC_RETENTION_MS = LONG(
    "kavka.audit.topic.retention.ms",
    -1,
    at_least(-1),
    doc="The retention.ms that __kavka_audit is created with, -1 for ever.",
    internal=True,
)

SETTINGS: Final[dict[str, Setting[Any]]] = collect(globals())

"""The settings of replication, and of the quotas that slow it and clients down."""

from __future__ import annotations

from typing import Any, Final

from kavka.model.settings.types import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    CLASS,
    INT,
    LONG,
    LONG_MAX,
    STRING,
    Setting,
    Update,
    collect,
    one_of_any_case,
)

CLUSTER: Final = Update.CLUSTER

# Replication
NUM_REPLICA_ALTER_LOG_DIRS_THREADS = INT.optional("num.replica.alter.log.dirs.threads")
CONTROLLER_SOCKET_TIMEOUT_MS = INT("controller.socket.timeout.ms", 30_000)
DEFAULT_REPLICATION_FACTOR = INT(
    "default.replication.factor", 1, doc="The replicas of a topic created without a number."
)
REPLICA_LAG_TIME_MAX_MS = LONG(
    "replica.lag.time.max.ms", 30_000, doc="How long a follower may be behind its leader before it is out of sync."
)
REPLICA_SOCKET_TIMEOUT_MS = INT(
    "replica.socket.timeout.ms",
    30_000,
    doc="How long a follower waits for its leader's answer, beyond the wait that it asks for.",
)
REPLICA_SOCKET_RECEIVE_BUFFER_BYTES = INT("replica.socket.receive.buffer.bytes", 65_536)
REPLICA_FETCH_MAX_BYTES = INT(
    "replica.fetch.max.bytes",
    1 << 20,
    AT_LEAST_0,
    doc="How much of a partition a follower asks for at once; a larger batch comes all the same.",
)
REPLICA_FETCH_WAIT_MAX_MS = INT(
    "replica.fetch.wait.max.ms", 500, doc="How long a leader may wait for something to answer a follower with."
)
REPLICA_FETCH_BACKOFF_MS = INT(
    "replica.fetch.backoff.ms", 1000, AT_LEAST_0, doc="How long a follower rests after a fetch that failed."
)
REPLICA_FETCH_MIN_BYTES = INT(
    "replica.fetch.min.bytes", 1, doc="How much a leader waits for before it answers a follower."
)
REPLICA_FETCH_RESPONSE_MAX_BYTES = INT(
    "replica.fetch.response.max.bytes",
    10 << 20,
    AT_LEAST_0,
    doc="How much a leader answers a follower at once; a larger first batch comes all the same.",
)
NUM_REPLICA_FETCHERS = INT("num.replica.fetchers", 1, AT_LEAST_1, CLUSTER)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = LONG(
    "replica.high.watermark.checkpoint.interval.ms", 5000, doc="How often the high watermarks are written down."
)
FETCH_PURGATORY_PURGE_INTERVAL_REQUESTS = INT("fetch.purgatory.purge.interval.requests", 1000)
PRODUCER_PURGATORY_PURGE_INTERVAL_REQUESTS = INT("producer.purgatory.purge.interval.requests", 1000)
DELETE_RECORDS_PURGATORY_PURGE_INTERVAL_REQUESTS = INT("delete.records.purgatory.purge.interval.requests", 1)
AUTO_LEADER_REBALANCE_ENABLE = BOOLEAN(
    "auto.leader.rebalance.enable",
    True,
    doc="Whether the controller elects preferred leaders from time to time.",
)
LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS = LONG(
    "leader.imbalance.check.interval.seconds",
    300,
    AT_LEAST_1,
    doc="How often the controller looks for partitions whose leader is not the preferred one.",
)
UNCLEAN_LEADER_ELECTION_INTERVAL_MS = LONG(
    "unclean.leader.election.interval.ms",
    300_000,
    AT_LEAST_1,
    internal=True,
    doc="How often the controller holds unclean elections, where they are allowed.",
)
UNCLEAN_LEADER_ELECTION_ENABLE = BOOLEAN(
    "unclean.leader.election.enable",
    False,
    None,
    CLUSTER,
    "Whether a replica outside the ISR may become leader when no other can, losing records.",
)
UNCLEAN_RECOVERY_STRATEGY = STRING(
    "unclean.recovery.strategy",
    "None",
    one_of_any_case("None", "Balanced", "Aggressive"),
    CLUSTER,
    "How a partition gets a leader when neither ISR nor ELR has one (KIP-966): None leaves that to "
    "unclean.leader.election.enable; else the replica with the longest log leads, after 30 s (Balanced) or 2 s "
    "(Aggressive) or as soon as all have told how far they are.",
    internal=True,
)
REPLICA_SELECTOR_CLASS = STRING.optional(
    "replica.selector.class", doc="Which replica a consumer reads from; Kafka's RackAwareReplicaSelector is known."
)

# Quotas
QUOTA_WINDOW_NUM = INT("quota.window.num", 11, AT_LEAST_1, doc="Over how many windows the use of clients is measured.")
REPLICATION_QUOTA_WINDOW_NUM = INT(
    "replication.quota.window.num",
    11,
    AT_LEAST_1,
    doc="Over how many windows the rate of throttled replication is measured.",
)
ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_NUM = INT(
    "alter.log.dirs.replication.quota.window.num",
    11,
    AT_LEAST_1,
    doc="For how many windows what is copied between log directories is remembered.",
)
CONTROLLER_QUOTA_WINDOW_NUM = INT(
    "controller.quota.window.num",
    11,
    AT_LEAST_1,
    doc="For how many windows changes may be saved up that the quota for them allows.",
)
QUOTA_WINDOW_SIZE_SECONDS = INT("quota.window.size.seconds", 1, AT_LEAST_1, doc="How long such a window is.")
REPLICATION_QUOTA_WINDOW_SIZE_SECONDS = INT(
    "replication.quota.window.size.seconds", 1, AT_LEAST_1, doc="How long such a window is."
)
ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_SIZE_SECONDS = INT(
    "alter.log.dirs.replication.quota.window.size.seconds", 1, AT_LEAST_1, doc="How long such a window is."
)
CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS = INT(
    "controller.quota.window.size.seconds", 1, AT_LEAST_1, doc="How long such a window is."
)
CLIENT_QUOTA_CALLBACK_CLASS = CLASS.optional("client.quota.callback.class", doc="A part of Java: refused.")
LEADER_REPLICATION_THROTTLED_RATE = LONG(
    "leader.replication.throttled.rate",
    LONG_MAX,
    AT_LEAST_0,
    CLUSTER,
    internal=True,
    doc="How many bytes a second a leader sends to throttled replicas.",
)
FOLLOWER_REPLICATION_THROTTLED_RATE = LONG(
    "follower.replication.throttled.rate",
    LONG_MAX,
    AT_LEAST_0,
    CLUSTER,
    internal=True,
    doc="How many bytes a second a follower fetches for throttled replicas.",
)
REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND = LONG(
    "replica.alter.log.dirs.io.max.bytes.per.second",
    LONG_MAX,
    AT_LEAST_0,
    CLUSTER,
    "How many bytes a second are copied from one log directory of a broker to another.",
    internal=True,
)

SETTINGS: Final[dict[str, Setting[Any]]] = collect(globals())

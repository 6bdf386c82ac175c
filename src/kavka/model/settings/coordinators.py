"""The settings of the group, share and transaction coordinators."""

from __future__ import annotations

from typing import Any, Final

from kavka.model.settings.types import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    FILLED,
    INT,
    INT_MAX,
    LONG,
    SET,
    SHORT,
    STRING,
    Setting,
    Update,
    at_least,
    between,
    collect,
    one_of_any_case,
    some_of,
)

CLUSTER: Final = Update.CLUSTER
# Offsets
OFFSETS_COMMIT_TIMEOUT_MS = INT(
    "offsets.commit.timeout.ms",
    5000,
    AT_LEAST_1,
    doc="How long a coordinator's write may wait for the in-sync replicas.",
)
OFFSETS_LOAD_BUFFER_SIZE = INT("offsets.load.buffer.size", 5 << 20, AT_LEAST_1)
OFFSETS_TOPIC_REPLICATION_FACTOR = SHORT(
    "offsets.topic.replication.factor",
    3,
    AT_LEAST_1,
    doc="Replicas of the offsets topic; if not set, no more than there are brokers when it is created.",
)
OFFSETS_TOPIC_NUM_PARTITIONS = INT(
    "offsets.topic.num.partitions", 50, AT_LEAST_1, doc="Partitions of the offsets topic when it is created."
)
OFFSETS_TOPIC_SEGMENT_BYTES = INT(
    "offsets.topic.segment.bytes",
    100 << 20,
    AT_LEAST_1,
    doc="Size of a segment of the offsets topic when it is created.",
)
OFFSETS_TOPIC_COMPRESSION_CODEC = INT(
    "offsets.topic.compression.codec",
    0,
    doc="Codec of the offsets topic's batches: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
)
OFFSET_METADATA_MAX_BYTES = INT(
    "offset.metadata.max.bytes", 4096, doc="The longest text that a client may commit with an offset."
)
OFFSETS_RETENTION_MINUTES = INT(
    "offsets.retention.minutes",
    10_080,
    AT_LEAST_1,
    doc="How long the offsets of a group are kept after its last member has left.",
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS = LONG(
    "offsets.retention.check.interval.ms", 600_000, AT_LEAST_1, doc="How often old offsets are looked for."
)

# Every kind of group
GROUP_COORDINATOR_REBALANCE_PROTOCOLS = SET(
    "group.coordinator.rebalance.protocols",
    ("classic", "consumer", "streams"),
    some_of("consumer", "classic", "share", "streams", empty=False),
    doc="The group protocols that are served.",
)
GROUP_COORDINATOR_THREADS = INT("group.coordinator.threads", 4, AT_LEAST_1)
GROUP_COORDINATOR_BACKGROUND_THREADS = INT("group.coordinator.background.threads", 2, AT_LEAST_1)
GROUP_COORDINATOR_APPEND_LINGER_MS = INT(
    "group.coordinator.append.linger.ms",
    -1,
    at_least(-1),
    doc="How long a coordinator's records wait for others; -1: until the end of the loop's turn.",
)
GROUP_COORDINATOR_CACHED_BUFFER_MAX_BYTES = INT(
    "group.coordinator.cached.buffer.max.bytes", 1_048_588, at_least(524_288), CLUSTER
)

# Classic groups
GROUP_MIN_SESSION_TIMEOUT_MS = INT(
    "group.min.session.timeout.ms", 6000, doc="The shortest session timeout that a classic member may ask for."
)
GROUP_MAX_SESSION_TIMEOUT_MS = INT(
    "group.max.session.timeout.ms", 1_800_000, doc="The longest session timeout that a classic member may ask for."
)
GROUP_INITIAL_REBALANCE_DELAY_MS = INT(
    "group.initial.rebalance.delay.ms",
    3000,
    doc="How long the first rebalance of an empty classic group waits for more members.",
)
GROUP_MAX_SIZE = INT("group.max.size", INT_MAX, AT_LEAST_1, doc="The most members of a classic group.")

# Consumer groups (KIP-848)
GROUP_CONSUMER_SESSION_TIMEOUT_MS = INT(
    "group.consumer.session.timeout.ms", 45_000, AT_LEAST_1, doc="How long a member of a consumer group may be silent."
)
GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS = INT(
    "group.consumer.min.session.timeout.ms",
    45_000,
    AT_LEAST_1,
    doc="The shortest session timeout that a group can be given.",
)
GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS = INT(
    "group.consumer.max.session.timeout.ms",
    60_000,
    AT_LEAST_1,
    doc="The longest session timeout that a group can be given.",
)
GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS = INT(
    "group.consumer.heartbeat.interval.ms", 5000, AT_LEAST_1, doc="How often members of a consumer group are heard of."
)
GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS = INT(
    "group.consumer.min.heartbeat.interval.ms",
    5000,
    AT_LEAST_1,
    doc="The shortest heartbeat interval that a group can be given.",
)
GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS = INT(
    "group.consumer.max.heartbeat.interval.ms",
    15_000,
    AT_LEAST_1,
    doc="The longest heartbeat interval that a group can be given.",
)
GROUP_CONSUMER_MAX_SIZE = INT(
    "group.consumer.max.size", INT_MAX, AT_LEAST_1, doc="The most members of a consumer group."
)
GROUP_CONSUMER_ASSIGNORS = SET(
    "group.consumer.assignors", ("uniform", "range"), FILLED, doc="The assignors that are offered, the default first."
)
GROUP_CONSUMER_MIGRATION_POLICY = STRING(
    "group.consumer.migration.policy",
    "bidirectional",
    one_of_any_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
    doc="In which direction a group may go from one protocol to the other; one whose assignments carry user data, as "
    "those of librdkafka's cooperative-sticky do, cannot leave the classic one while members are in it.",
)
GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS = INT(
    "group.consumer.assignment.interval.ms",
    1000,
    AT_LEAST_0,
    CLUSTER,
    doc="The least time between two assignments of a consumer group.",
)
GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS = INT(
    "group.consumer.min.assignment.interval.ms",
    0,
    AT_LEAST_0,
    doc="The shortest assignment interval that a group can be given.",
)
GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS = INT(
    "group.consumer.max.assignment.interval.ms",
    15_000,
    AT_LEAST_0,
    doc="The longest assignment interval that a group can be given.",
)
GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS = INT(
    "group.consumer.regex.refresh.interval.ms",
    600_000,
    at_least(10_000),
    internal=True,
    doc="How often the patterns of a group are matched anew although no topic was created.",
)

# Share groups (KIP-932)
GROUP_SHARE_SESSION_TIMEOUT_MS = INT(
    "group.share.session.timeout.ms", 45_000, AT_LEAST_1, doc="How long a member of a share group may be silent."
)
GROUP_SHARE_MIN_SESSION_TIMEOUT_MS = INT(
    "group.share.min.session.timeout.ms",
    45_000,
    AT_LEAST_1,
    doc="The shortest session timeout that a share group can be given.",
)
GROUP_SHARE_MAX_SESSION_TIMEOUT_MS = INT(
    "group.share.max.session.timeout.ms",
    60_000,
    AT_LEAST_1,
    doc="The longest session timeout that a share group can be given.",
)
GROUP_SHARE_HEARTBEAT_INTERVAL_MS = INT(
    "group.share.heartbeat.interval.ms", 5000, AT_LEAST_1, doc="How often members of share groups are heard of."
)
GROUP_SHARE_MIN_HEARTBEAT_INTERVAL_MS = INT(
    "group.share.min.heartbeat.interval.ms",
    5000,
    AT_LEAST_1,
    doc="The shortest heartbeat interval that a share group can be given.",
)
GROUP_SHARE_MAX_HEARTBEAT_INTERVAL_MS = INT(
    "group.share.max.heartbeat.interval.ms",
    15_000,
    AT_LEAST_1,
    doc="The longest heartbeat interval that a share group can be given.",
)
GROUP_SHARE_MAX_SIZE = INT(
    "group.share.max.size", 200, between(1, 1000), doc="How many members a share group may have."
)
GROUP_SHARE_ASSIGNORS = SET("group.share.assignors", ("simple",), FILLED)
GROUP_SHARE_ASSIGNMENT_INTERVAL_MS = INT(
    "group.share.assignment.interval.ms",
    1000,
    AT_LEAST_0,
    CLUSTER,
    doc="The least time between two assignments of a share group.",
)
GROUP_SHARE_MIN_ASSIGNMENT_INTERVAL_MS = INT(
    "group.share.min.assignment.interval.ms",
    0,
    AT_LEAST_0,
    doc="The shortest assignment interval that a share group can be given.",
)
GROUP_SHARE_MAX_ASSIGNMENT_INTERVAL_MS = INT(
    "group.share.max.assignment.interval.ms",
    15_000,
    AT_LEAST_0,
    doc="The longest assignment interval that a share group can be given.",
)
GROUP_SHARE_INITIALIZE_RETRY_INTERVAL_MS = INT(
    "group.share.initialize.retry.interval.ms",
    30_000,
    AT_LEAST_1,
    internal=True,
    doc="After so long the states of a share group's partitions are asked for again.",
)
GROUP_SHARE_DELIVERY_COUNT_LIMIT = INT(
    "group.share.delivery.count.limit",
    5,
    between(2, 10),
    doc="How many delivery attempts a record has in a share group.",
)
GROUP_SHARE_MAX_DELIVERY_COUNT_LIMIT = INT(
    "group.share.max.delivery.count.limit",
    10,
    between(5, 25),
    doc="The highest limit of deliveries that a share group can be given.",
)
GROUP_SHARE_MIN_DELIVERY_COUNT_LIMIT = INT(
    "group.share.min.delivery.count.limit",
    2,
    between(2, 5),
    doc="The lowest limit of deliveries that a share group can be given.",
)
GROUP_SHARE_RECORD_LOCK_DURATION_MS = INT(
    "group.share.record.lock.duration.ms",
    30_000,
    between(1000, 3_600_000),
    doc="How long the acquisition lock of a record in a share group lasts.",
)
GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS = INT(
    "group.share.min.record.lock.duration.ms",
    15_000,
    between(1000, 30_000),
    doc="The shortest acquisition lock that a share group can be given.",
)
GROUP_SHARE_MAX_RECORD_LOCK_DURATION_MS = INT(
    "group.share.max.record.lock.duration.ms",
    60_000,
    between(30_000, 3_600_000),
    doc="The longest acquisition lock that a share group can be given.",
)
GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS = INT(
    "group.share.partition.max.record.locks",
    2000,
    between(100, 10_000),
    doc="How many in-flight records a share partition has at most.",
)
GROUP_SHARE_MAX_PARTITION_MAX_RECORD_LOCKS = INT(
    "group.share.max.partition.max.record.locks",
    4000,
    between(2000, 10_000),
    doc="The most records in flight that a share group can be given.",
)
GROUP_SHARE_MIN_PARTITION_MAX_RECORD_LOCKS = INT(
    "group.share.min.partition.max.record.locks",
    100,
    between(100, 2000),
    doc="The fewest records in flight that a share group can be given.",
)
SHARE_FETCH_PURGATORY_PURGE_INTERVAL_REQUESTS = INT("share.fetch.purgatory.purge.interval.requests", 1000)
GROUP_SHARE_MAX_SHARE_SESSIONS = INT(
    "group.share.max.share.sessions", 2000, AT_LEAST_1, doc="How many share sessions a broker has at most."
)
GROUP_SHARE_PERSISTER_CLASS_NAME = STRING(
    "group.share.persister.class.name", "org.apache.kafka.server.share.persister.DefaultStatePersister", internal=True
)
SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS = INT(
    "share.coordinator.state.topic.num.partitions",
    50,
    AT_LEAST_1,
    doc="Partitions of the share-group state topic when it is created.",
)
SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR = SHORT(
    "share.coordinator.state.topic.replication.factor",
    3,
    AT_LEAST_1,
    doc="Replicas of the share-group state topic; if not set, no more than there are brokers when it is created.",
)
SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR = SHORT(
    "share.coordinator.state.topic.min.isr",
    2,
    AT_LEAST_1,
    doc="min.insync.replicas of the share-group state topic when it is created.",
)
SHARE_COORDINATOR_STATE_TOPIC_SEGMENT_BYTES = INT(
    "share.coordinator.state.topic.segment.bytes",
    100 << 20,
    AT_LEAST_1,
    doc="Size of a segment of the share-group state topic when it is created.",
)
SHARE_COORDINATOR_THREADS = INT("share.coordinator.threads", 1, AT_LEAST_1)
SHARE_COORDINATOR_SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT = INT(
    "share.coordinator.snapshot.update.records.per.snapshot",
    500,
    between(0, 500),
    doc="After so many changes of a share partition's state all of it is written.",
)
SHARE_COORDINATOR_LOAD_BUFFER_SIZE = INT("share.coordinator.load.buffer.size", 5 << 20, AT_LEAST_1)
SHARE_COORDINATOR_STATE_TOPIC_COMPRESSION_CODEC = INT(
    "share.coordinator.state.topic.compression.codec",
    0,
    doc="Codec of the share-group state topic's batches: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
)
SHARE_COORDINATOR_APPEND_LINGER_MS = INT(
    "share.coordinator.append.linger.ms",
    -1,
    at_least(-1),
    doc="How long the share coordinator's records wait for others; -1: until the end of the loop's turn.",
)
SHARE_COORDINATOR_WRITE_TIMEOUT_MS = INT(
    "share.coordinator.write.timeout.ms",
    5000,
    AT_LEAST_1,
    doc="How long the share coordinator's write may wait for the in-sync replicas.",
)
SHARE_COORDINATOR_STATE_TOPIC_PRUNE_INTERVAL_MS = INT(
    "share.coordinator.state.topic.prune.interval.ms",
    300_000,
    AT_LEAST_1,
    internal=True,
    doc="How often what nobody needs is deleted from the share-group state topic.",
)
SHARE_COORDINATOR_COLD_PARTITION_SNAPSHOT_INTERVAL_MS = INT(
    "share.coordinator.cold.partition.snapshot.interval.ms",
    300_000,
    AT_LEAST_1,
    internal=True,
    doc="After how long a share partition's state that does not change is written anew.",
)
SHARE_COORDINATOR_CACHED_BUFFER_MAX_BYTES = INT(
    "share.coordinator.cached.buffer.max.bytes", 1_048_588, at_least(524_288), CLUSTER
)

# Streams groups (KIP-1071)
GROUP_STREAMS_SESSION_TIMEOUT_MS = INT(
    "group.streams.session.timeout.ms",
    45_000,
    AT_LEAST_1,
    doc="How long a member of a streams group may be silent before it is fenced.",
)
GROUP_STREAMS_MIN_SESSION_TIMEOUT_MS = INT(
    "group.streams.min.session.timeout.ms",
    45_000,
    AT_LEAST_1,
    doc="The least session timeout that a streams group may set.",
)
GROUP_STREAMS_MAX_SESSION_TIMEOUT_MS = INT(
    "group.streams.max.session.timeout.ms",
    60_000,
    AT_LEAST_1,
    doc="The most session timeout that a streams group may set.",
)
GROUP_STREAMS_HEARTBEAT_INTERVAL_MS = INT(
    "group.streams.heartbeat.interval.ms",
    5000,
    AT_LEAST_1,
    doc="How often members of streams groups are told to send a heartbeat.",
)
GROUP_STREAMS_MIN_HEARTBEAT_INTERVAL_MS = INT(
    "group.streams.min.heartbeat.interval.ms",
    5000,
    AT_LEAST_1,
    doc="The least heartbeat interval that a streams group may set.",
)
GROUP_STREAMS_MAX_HEARTBEAT_INTERVAL_MS = INT(
    "group.streams.max.heartbeat.interval.ms",
    15_000,
    AT_LEAST_1,
    doc="The most heartbeat interval that a streams group may set.",
)
GROUP_STREAMS_MAX_SIZE = INT(
    "group.streams.max.size", INT_MAX, AT_LEAST_1, doc="How many members a streams group may have."
)
GROUP_STREAMS_NUM_STANDBY_REPLICAS = INT(
    "group.streams.num.standby.replicas",
    0,
    AT_LEAST_0,
    doc="How many standby tasks each stateful task of a streams group has.",
)
GROUP_STREAMS_MAX_STANDBY_REPLICAS = INT(
    "group.streams.max.standby.replicas", 2, AT_LEAST_0, doc="The most standby tasks that a streams group may set."
)
GROUP_STREAMS_INITIAL_REBALANCE_DELAY_MS = INT(
    "group.streams.initial.rebalance.delay.ms",
    3000,
    AT_LEAST_0,
    doc="How long the first assignment of an empty streams group waits for others to join.",
)
GROUP_STREAMS_ASSIGNMENT_INTERVAL_MS = INT(
    "group.streams.assignment.interval.ms",
    1000,
    AT_LEAST_0,
    CLUSTER,
    doc="How long a streams group keeps an assignment before it works out another.",
)
GROUP_STREAMS_MIN_ASSIGNMENT_INTERVAL_MS = INT(
    "group.streams.min.assignment.interval.ms",
    0,
    AT_LEAST_0,
    doc="The least assignment interval that a streams group may set.",
)
GROUP_STREAMS_MAX_ASSIGNMENT_INTERVAL_MS = INT(
    "group.streams.max.assignment.interval.ms",
    15_000,
    AT_LEAST_0,
    doc="The most assignment interval that a streams group may set.",
)

# Producers and transactions
TRANSACTION_STATE_LOG_MIN_ISR = INT(
    "transaction.state.log.min.isr",
    2,
    AT_LEAST_1,
    doc="min.insync.replicas of the transaction log.",
)
TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE = INT("transaction.state.log.load.buffer.size", 5 << 20, AT_LEAST_1)
TRANSACTION_STATE_LOG_REPLICATION_FACTOR = SHORT(
    "transaction.state.log.replication.factor",
    3,
    AT_LEAST_1,
    doc="The replication factor of the transaction log when it is created.",
)
TRANSACTION_STATE_LOG_NUM_PARTITIONS = INT(
    "transaction.state.log.num.partitions",
    50,
    AT_LEAST_1,
    doc="How many partitions the transaction log has when it is created.",
)
TRANSACTION_STATE_LOG_SEGMENT_BYTES = INT(
    "transaction.state.log.segment.bytes",
    100 << 20,
    AT_LEAST_1,
    doc="How large a segment of the transaction log becomes.",
)
TRANSACTION_PARTITION_VERIFICATION_ENABLE = BOOLEAN(
    "transaction.partition.verification.enable",
    True,
    None,
    CLUSTER,
    doc="Whether a partition is verified to be part of a transaction before it is written to (KIP-890).",
)
PRODUCER_ID_EXPIRATION_MS = INT(
    "producer.id.expiration.ms", 86_400_000, AT_LEAST_1, CLUSTER, "How long a silent idempotent producer is remembered."
)
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS = INT(
    "producer.id.expiration.check.interval.ms",
    600_000,
    AT_LEAST_1,
    doc="How often expired producer ids are looked for.",
    internal=True,
)
TRANSACTIONAL_ID_EXPIRATION_MS = INT(
    "transactional.id.expiration.ms", 604_800_000, AT_LEAST_1, doc="How long an idle transactional id is remembered."
)
TRANSACTION_MAX_TIMEOUT_MS = INT(
    "transaction.max.timeout.ms",
    900_000,
    AT_LEAST_1,
    doc="The longest transaction timeout that a producer may ask for.",
)
TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS = INT(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    10_000,
    AT_LEAST_1,
    doc="How often transactions are looked for that are open for too long.",
)
TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS = INT(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    3_600_000,
    AT_LEAST_1,
    doc="How often transactional ids are looked for that have expired.",
)
TRANSACTION_TWO_PHASE_COMMIT_ENABLE = BOOLEAN(
    "transaction.two.phase.commit.enable",
    False,
    doc="Whether producers may prepare transactions that have no timeout (KIP-939).",
)
ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS = INT(
    "add.partitions.to.txn.retry.backoff.max.ms",
    100,
    AT_LEAST_0,
    doc="How long a broker tries again to have a partition verified.",
)
ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS = INT(
    "add.partitions.to.txn.retry.backoff.ms", 20, AT_LEAST_1, doc="How long a broker rests before it tries so again."
)

KAVKA_SCHEMAS_TOPIC_REPLICATION_FACTOR = SHORT(
    "kavka.schemas.topic.replication.factor",
    3,
    AT_LEAST_1,
    doc="Replicas of the schema registry's topic; if not set, no more than there are brokers when it is created.",
    internal=True,
)

SETTINGS: Final[dict[str, Setting[Any]]] = collect(globals())


def bounds_of(setting: Setting[Any]) -> tuple[Setting[int] | None, Setting[int] | None]:
    """The limits of a setting of groups, the node's or one group's: group.<kind>.min.<rest> and max."""
    kind, _, rest = setting.name.removeprefix("group.").partition(".")
    low = SETTINGS.get(f"group.{kind}.min.{rest}")
    high = SETTINGS.get(f"group.{kind}.max.{rest.removeprefix('num.')}")
    return low, high

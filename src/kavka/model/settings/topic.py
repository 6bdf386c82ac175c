"""The settings of a topic, and the broker settings each of them follows when it is not set."""

from __future__ import annotations

from typing import Any, Final

from kavka.model.settings import broker, replication, tiered
from kavka.model.settings.types import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    SET,
    STRING,
    Check,
    Setting,
    Synonym,
    at_least,
    between,
    collect,
    one_of_any_case,
)

MINUTE_MS: Final = 60 * 1000
HOUR_MS: Final = 60 * MINUTE_MS
STRATEGY_PACKAGE: Final = "io.confluent.kafka.serializers.subject."


def _throttled(replicas: tuple[str, ...]) -> bool:
    if "".join(replicas) == "*":
        return True
    pairs = (replica.split(":") for replica in replicas if replica)
    return all(len(pair) == 2 and all(part.isascii() and part.isdigit() for part in pair) for pair in pairs)


THROTTLED_REPLICAS: Final = Check("* or a list of partition:broker", _throttled)

TOPIC_SEGMENT_BYTES = INT(
    "segment.bytes",
    1 << 30,
    at_least(1 << 20),
    doc="The size at which a partition's log starts a new segment.",
    synonyms=(Synonym(broker.LOG_SEGMENT_BYTES),),
)
TOPIC_SEGMENT_MS = LONG(
    "segment.ms",
    604_800_000,
    AT_LEAST_1,
    doc="The age at which a partition's log starts a new segment, full or not.",
    synonyms=(
        Synonym(broker.LOG_ROLL_MS),
        Synonym(broker.LOG_ROLL_HOURS, HOUR_MS),
    ),
)
TOPIC_SEGMENT_JITTER_MS = LONG(
    "segment.jitter.ms",
    0,
    AT_LEAST_0,
    doc="The most that is taken off segment.ms by chance, so that logs do not all roll at once.",
    synonyms=(
        Synonym(broker.LOG_ROLL_JITTER_MS),
        Synonym(broker.LOG_ROLL_JITTER_HOURS, HOUR_MS),
    ),
)
TOPIC_SEGMENT_INDEX_BYTES = INT(
    "segment.index.bytes",
    10 << 20,
    at_least(4),
    doc="The largest offset or time index of a segment.",
    synonyms=(Synonym(broker.LOG_INDEX_SIZE_MAX_BYTES),),
)
TOPIC_FLUSH_MESSAGES = LONG(
    "flush.messages",
    LONG_MAX,
    AT_LEAST_1,
    doc="After how many records the log is forced to disk.",
    synonyms=(Synonym(broker.LOG_FLUSH_INTERVAL_MESSAGES),),
)
TOPIC_FLUSH_MS = LONG(
    "flush.ms",
    LONG_MAX,
    AT_LEAST_0,
    doc="How long a record may wait before the log is forced to disk.",
    synonyms=(
        Synonym(broker.LOG_FLUSH_INTERVAL_MS),
        Synonym(broker.LOG_FLUSH_SCHEDULER_INTERVAL_MS),
    ),
)
TOPIC_RETENTION_BYTES = LONG(
    "retention.bytes",
    -1,
    doc="How large a partition may grow before its oldest segments go; -1 is no limit.",
    synonyms=(Synonym(broker.LOG_RETENTION_BYTES),),
)
TOPIC_RETENTION_MS = LONG(
    "retention.ms",
    604_800_000,
    at_least(-1),
    doc="How long records are kept; -1 keeps them for ever.",
    synonyms=(
        Synonym(broker.LOG_RETENTION_MS),
        Synonym(broker.LOG_RETENTION_MINUTES, MINUTE_MS),
        Synonym(broker.LOG_RETENTION_HOURS, HOUR_MS),
    ),
)
TOPIC_MAX_MESSAGE_BYTES = INT(
    "max.message.bytes",
    1_048_588,
    AT_LEAST_0,
    doc="The largest record batch accepted.",
    synonyms=(Synonym(broker.MESSAGE_MAX_BYTES),),
)
TOPIC_INDEX_INTERVAL_BYTES = INT(
    "index.interval.bytes",
    4096,
    AT_LEAST_0,
    doc="How many bytes of records lie between two index entries.",
    synonyms=(Synonym(broker.LOG_INDEX_INTERVAL_BYTES),),
)
TOPIC_DELETE_RETENTION_MS = LONG(
    "delete.retention.ms",
    86_400_000,
    AT_LEAST_0,
    doc="How long a tombstone stays in a compacted log.",
    synonyms=(Synonym(broker.LOG_CLEANER_DELETE_RETENTION_MS),),
)
TOPIC_MIN_COMPACTION_LAG_MS = LONG(
    "min.compaction.lag.ms",
    0,
    AT_LEAST_0,
    doc="How long a record stays uncompacted at least.",
    synonyms=(Synonym(broker.LOG_CLEANER_MIN_COMPACTION_LAG_MS),),
)
TOPIC_MAX_COMPACTION_LAG_MS = LONG(
    "max.compaction.lag.ms",
    LONG_MAX,
    AT_LEAST_1,
    doc="How long a record stays uncompacted at most.",
    synonyms=(Synonym(broker.LOG_CLEANER_MAX_COMPACTION_LAG_MS),),
)
TOPIC_FILE_DELETE_DELAY_MS = LONG(
    "file.delete.delay.ms",
    60_000,
    AT_LEAST_0,
    doc="How long a removed segment's files stay before they are deleted.",
    synonyms=(Synonym(broker.LOG_SEGMENT_DELETE_DELAY_MS),),
)
TOPIC_MIN_CLEANABLE_DIRTY_RATIO = DOUBLE(
    "min.cleanable.dirty.ratio",
    0.5,
    between(0, 1),
    doc="The share of the log that must be uncompacted before it is compacted.",
    synonyms=(Synonym(broker.LOG_CLEANER_MIN_CLEANABLE_RATIO),),
)
TOPIC_CLEANUP_POLICY = SET(
    "cleanup.policy",
    ("delete",),
    broker.POLICIES,
    doc="What happens to old records: delete, compact, both or (empty) nothing.",
    synonyms=(Synonym(broker.LOG_CLEANUP_POLICY),),
)
TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = BOOLEAN(
    "unclean.leader.election.enable",
    False,
    doc="Whether a replica outside the ISR may become leader when no other can, losing records.",
    synonyms=(Synonym(replication.UNCLEAN_LEADER_ELECTION_ENABLE),),
)
TOPIC_UNCLEAN_RECOVERY_STRATEGY = STRING(
    "unclean.recovery.strategy",
    "None",
    one_of_any_case("None", "Balanced", "Aggressive"),
    doc="How a partition gets a leader when neither ISR nor ELR has one: see the broker's key.",
    internal=True,
    synonyms=(Synonym(replication.UNCLEAN_RECOVERY_STRATEGY),),
)
TOPIC_MIN_INSYNC_REPLICAS = INT(
    "min.insync.replicas",
    1,
    AT_LEAST_1,
    doc="How many replicas the ISR must have for a write with acks=all.",
    synonyms=(Synonym(broker.MIN_INSYNC_REPLICAS),),
)
TOPIC_COMPRESSION_TYPE = STRING(
    "compression.type",
    "producer",
    broker.CODECS,
    doc="The codec batches are stored with; producer keeps the producer's.",
    synonyms=(Synonym(broker.COMPRESSION_TYPE),),
)
TOPIC_COMPRESSION_GZIP_LEVEL = INT(
    "compression.gzip.level",
    -1,
    broker.GZIP_LEVEL,
    doc="The level when compression.type is gzip; -1 is the codec's own.",
    synonyms=(Synonym(broker.COMPRESSION_GZIP_LEVEL),),
)
TOPIC_COMPRESSION_LZ4_LEVEL = INT(
    "compression.lz4.level",
    9,
    broker.LZ4_LEVEL,
    doc="The level when compression.type is lz4.",
    synonyms=(Synonym(broker.COMPRESSION_LZ4_LEVEL),),
)
TOPIC_COMPRESSION_ZSTD_LEVEL = INT(
    "compression.zstd.level",
    3,
    broker.ZSTD_LEVEL,
    doc="The level when compression.type is zstd.",
    synonyms=(Synonym(broker.COMPRESSION_ZSTD_LEVEL),),
)
TOPIC_PREALLOCATE = BOOLEAN(
    "preallocate",
    False,
    doc="Whether a new segment's file takes its full size at once.",
    synonyms=(Synonym(broker.LOG_PREALLOCATE),),
)
TOPIC_MESSAGE_TIMESTAMP_TYPE = STRING(
    "message.timestamp.type",
    "CreateTime",
    broker.TIMESTAMP_TYPES,
    doc="The timestamp of records: CreateTime from the producer or LogAppendTime from the broker.",
    synonyms=(Synonym(broker.LOG_MESSAGE_TIMESTAMP_TYPE),),
)
TOPIC_MESSAGE_TIMESTAMP_BEFORE_MAX_MS = LONG(
    "message.timestamp.before.max.ms",
    LONG_MAX,
    AT_LEAST_0,
    doc="How far a record's timestamp may lie before the broker's time.",
    synonyms=(Synonym(broker.LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS),),
)
TOPIC_MESSAGE_TIMESTAMP_AFTER_MAX_MS = LONG(
    "message.timestamp.after.max.ms",
    3_600_000,
    AT_LEAST_0,
    doc="How far a record's timestamp may lie after the broker's time.",
    synonyms=(Synonym(broker.LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS),),
)
TOPIC_LEADER_REPLICATION_THROTTLED_REPLICAS = LIST(
    "leader.replication.throttled.replicas",
    (),
    THROTTLED_REPLICAS,
    doc="The replicas whose outgoing replication is throttled, as partition:broker, or *.",
)
TOPIC_FOLLOWER_REPLICATION_THROTTLED_REPLICAS = LIST(
    "follower.replication.throttled.replicas",
    (),
    THROTTLED_REPLICAS,
    doc="The replicas whose incoming replication is throttled, as partition:broker, or *.",
)
TOPIC_REMOTE_STORAGE_ENABLE = BOOLEAN(
    "remote.storage.enable",
    False,
    doc="Whether the topic uses tiered storage, in the store of kavka.remote.storage.url.",
)
TOPIC_LOCAL_RETENTION_MS = LONG(
    "local.retention.ms",
    -2,
    at_least(-2),
    doc="How long segments in tiered storage stay on the local disk as well; -2: as long as retention.ms.",
    synonyms=(Synonym(tiered.LOG_LOCAL_RETENTION_MS),),
)
TOPIC_LOCAL_RETENTION_BYTES = LONG(
    "local.retention.bytes",
    -2,
    at_least(-2),
    doc="How much of a partition in tiered storage stays on the local disk; -2: as much as retention.bytes.",
    synonyms=(Synonym(tiered.LOG_LOCAL_RETENTION_BYTES),),
)
TOPIC_REMOTE_LOG_COPY_DISABLE = BOOLEAN(
    "remote.log.copy.disable",
    False,
    doc="Whether nothing more is copied to tiered storage; what it has stays readable (KIP-950).",
)
TOPIC_REMOTE_LOG_DELETE_ON_DISABLE = BOOLEAN(
    "remote.log.delete.on.disable",
    False,
    doc="Whether what is in tiered storage is deleted when remote.storage.enable is switched off (KIP-950).",
)
TOPIC_INTERNAL_SEGMENT_BYTES = INT.optional(
    "internal.segment.bytes",
    doc="A segment size below the usual minimum, for tests; wins over segment.bytes.",
    internal=True,
)

SUBJECT_NAME_STRATEGIES: Final = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
_STRATEGY: Final = Check(
    f"{', '.join(SUBJECT_NAME_STRATEGIES)}, alone or in Confluent's package",
    lambda name: name.removeprefix(STRATEGY_PACKAGE) in SUBJECT_NAME_STRATEGIES,
)
TOPIC_CONFLUENT_KEY_SCHEMA_VALIDATION = BOOLEAN(
    "confluent.key.schema.validation",
    False,
    doc="Whether only records are taken whose key names a schema that is registered for the topic.",
    internal=True,  # not Kafka's: its tools are not shown it unless it is set
)
TOPIC_CONFLUENT_VALUE_SCHEMA_VALIDATION = BOOLEAN(
    "confluent.value.schema.validation",
    False,
    doc="Whether only records are taken whose value names a schema that is registered for the topic.",
    internal=True,
)
TOPIC_CONFLUENT_KEY_SUBJECT_NAME_STRATEGY = STRING(
    "confluent.key.subject.name.strategy",
    f"{STRATEGY_PACKAGE}TopicNameStrategy",
    _STRATEGY,
    doc="Under which subject the schemas of keys are looked for.",
    internal=True,
)
TOPIC_CONFLUENT_VALUE_SUBJECT_NAME_STRATEGY = STRING(
    "confluent.value.subject.name.strategy",
    f"{STRATEGY_PACKAGE}TopicNameStrategy",
    _STRATEGY,
    doc="Under which subject the schemas of values are looked for.",
    internal=True,
)

SETTINGS: Final[dict[str, Setting[Any]]] = collect(globals())

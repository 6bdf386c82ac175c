"""What a topic's configuration means for its partitions, worked out once per change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kavka.model.settings import KAVKA_MAX_DECOMPRESSED_MESSAGE_BYTES, PRODUCER_ID_EXPIRATION_MS, topic
from kavka.model.settings.tiered import REMOTE_LOG_STORAGE_SYSTEM_ENABLE
from kavka.model.settings.values import Values
from kavka.records.framing import SchemaRules
from kavka.records.validate import ProduceRules
from kavka.storage.config import LogConfig

NEVER_FLUSHED: Final = (1 << 63) - 1
LEVELS = {
    "gzip": topic.TOPIC_COMPRESSION_GZIP_LEVEL,
    "lz4": topic.TOPIC_COMPRESSION_LZ4_LEVEL,
    "zstd": topic.TOPIC_COMPRESSION_ZSTD_LEVEL,
}


@dataclass(frozen=True, slots=True)
class TopicRules:
    """The settings of one topic in the form that the hot path reads; topics without overrides share one."""

    log: LogConfig
    produce: ProduceRules
    min_insync_replicas: int
    flushes: bool
    """Whether flush.messages asks for any forcing to disk at all."""
    tiered: bool = False
    """Whether the topic, and this node, keep records in a tier as well (remote.storage.enable)."""
    copy_disabled: bool = False
    """Whether a tiered topic gives nothing more to its tier (remote.log.copy.disable)."""
    deletes_tier: bool = False
    """Whether a topic that is tiered no more gives up what its tier has (remote.log.delete.on.disable)."""
    leader_throttled: tuple[str, ...] = ()
    follower_throttled: tuple[str, ...] = ()


def topic_rules(values: Values, node: Values) -> TopicRules:
    """The rules that a topic's effective values stand for."""
    compact = "compact" in values[topic.TOPIC_CLEANUP_POLICY]
    log = log_config(values, node)
    has_tiers = node[REMOTE_LOG_STORAGE_SYSTEM_ENABLE]
    tiered = has_tiers and values[topic.TOPIC_REMOTE_STORAGE_ENABLE] and not compact
    compression = values[topic.TOPIC_COMPRESSION_TYPE]
    produce = ProduceRules(
        max_message_bytes=log.max_message_bytes,
        timestamp_type=values[topic.TOPIC_MESSAGE_TIMESTAMP_TYPE],
        compression_type=compression,
        compression_level=values[LEVELS[compression]] if compression in LEVELS else None,
        compact=compact,
        before_max_ms=values[topic.TOPIC_MESSAGE_TIMESTAMP_BEFORE_MAX_MS],
        after_max_ms=values[topic.TOPIC_MESSAGE_TIMESTAMP_AFTER_MAX_MS],
        max_decompressed_bytes=node[KAVKA_MAX_DECOMPRESSED_MESSAGE_BYTES],
        schemas=schema_rules(values),
    )
    return TopicRules(
        log,
        produce,
        values[topic.TOPIC_MIN_INSYNC_REPLICAS],
        log.flush_messages < NEVER_FLUSHED,
        tiered,
        tiered and values[topic.TOPIC_REMOTE_LOG_COPY_DISABLE],
        has_tiers and not tiered and values[topic.TOPIC_REMOTE_LOG_DELETE_ON_DISABLE],
        tuple(values[topic.TOPIC_LEADER_REPLICATION_THROTTLED_REPLICAS]),
        tuple(values[topic.TOPIC_FOLLOWER_REPLICATION_THROTTLED_REPLICAS]),
    )


def schema_rules(values: Values) -> SchemaRules | None:
    """What schemas a topic's records have to have; None if any will do."""
    key = value = None
    if values[topic.TOPIC_CONFLUENT_KEY_SCHEMA_VALIDATION]:
        key = values[topic.TOPIC_CONFLUENT_KEY_SUBJECT_NAME_STRATEGY].rpartition(".")[2]
    if values[topic.TOPIC_CONFLUENT_VALUE_SCHEMA_VALIDATION]:
        value = values[topic.TOPIC_CONFLUENT_VALUE_SUBJECT_NAME_STRATEGY].rpartition(".")[2]
    return None if key is None and value is None else SchemaRules(key, value)


def log_config(values: Values, node: Values) -> LogConfig:
    """What a log has to know of its topic's effective values."""
    policy = values[topic.TOPIC_CLEANUP_POLICY]
    return LogConfig(
        segment_bytes=values[topic.TOPIC_INTERNAL_SEGMENT_BYTES] or values[topic.TOPIC_SEGMENT_BYTES],
        segment_ms=values[topic.TOPIC_SEGMENT_MS],
        segment_jitter_ms=values[topic.TOPIC_SEGMENT_JITTER_MS],
        index_interval_bytes=values[topic.TOPIC_INDEX_INTERVAL_BYTES],
        index_size_max_bytes=values[topic.TOPIC_SEGMENT_INDEX_BYTES],
        retention_ms=values[topic.TOPIC_RETENTION_MS],
        retention_bytes=values[topic.TOPIC_RETENTION_BYTES],
        local_retention_ms=values[topic.TOPIC_LOCAL_RETENTION_MS],
        local_retention_bytes=values[topic.TOPIC_LOCAL_RETENTION_BYTES],
        compact="compact" in policy,
        delete="delete" in policy,
        min_compaction_lag_ms=values[topic.TOPIC_MIN_COMPACTION_LAG_MS],
        max_compaction_lag_ms=values[topic.TOPIC_MAX_COMPACTION_LAG_MS],
        delete_retention_ms=values[topic.TOPIC_DELETE_RETENTION_MS],
        min_cleanable_ratio=values[topic.TOPIC_MIN_CLEANABLE_DIRTY_RATIO],
        file_delete_delay_ms=values[topic.TOPIC_FILE_DELETE_DELAY_MS],
        flush_messages=values[topic.TOPIC_FLUSH_MESSAGES],
        flush_ms=values[topic.TOPIC_FLUSH_MS],
        max_message_bytes=values[topic.TOPIC_MAX_MESSAGE_BYTES],
        preallocate=values[topic.TOPIC_PREALLOCATE],
        producer_id_expiration_ms=node[PRODUCER_ID_EXPIRATION_MS],
    )

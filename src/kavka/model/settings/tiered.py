"""The settings of tiered storage (KIP-405)."""

from __future__ import annotations

from typing import Any, Final

from kavka.model.settings.types import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    NOT_EMPTY,
    SHORT,
    STRING,
    Check,
    Setting,
    Update,
    at_least,
    between,
    collect,
)

CLUSTER: Final = Update.CLUSTER
# Remote storage
REMOTE_LOG_STORAGE_SYSTEM_ENABLE = BOOLEAN(
    "remote.log.storage.system.enable",
    False,
    doc="Whether topics may use tiered storage, in the store of kavka.remote.storage.url.",
)
REMOTE_LOG_STORAGE_MANAGER_IMPL_PREFIX = STRING("remote.log.storage.manager.impl.prefix", "rsm.config.", NOT_EMPTY)
REMOTE_LOG_METADATA_MANAGER_IMPL_PREFIX = STRING("remote.log.metadata.manager.impl.prefix", "rlmm.config.", NOT_EMPTY)
REMOTE_LOG_STORAGE_MANAGER_CLASS_NAME = STRING.optional("remote.log.storage.manager.class.name", NOT_EMPTY)
REMOTE_LOG_STORAGE_MANAGER_CLASS_PATH = STRING.optional("remote.log.storage.manager.class.path")
REMOTE_LOG_METADATA_MANAGER_CLASS_NAME = STRING(
    "remote.log.metadata.manager.class.name",
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
    NOT_EMPTY,
)
REMOTE_LOG_METADATA_MANAGER_CLASS_PATH = STRING.optional("remote.log.metadata.manager.class.path")
REMOTE_LOG_METADATA_MANAGER_LISTENER_NAME = STRING.optional("remote.log.metadata.manager.listener.name", NOT_EMPTY)
REMOTE_LOG_METADATA_CUSTOM_METADATA_MAX_BYTES = INT(
    "remote.log.metadata.custom.metadata.max.bytes",
    128,
    AT_LEAST_0,
    doc="The most that a store may have remembered of a segment beside Kafka's own; this one has 13 bytes.",
)
REMOTE_LOG_INDEX_FILE_CACHE_TOTAL_SIZE_BYTES = LONG(
    "remote.log.index.file.cache.total.size.bytes",
    1 << 30,
    AT_LEAST_1,
    CLUSTER,
    "How much of the disk indexes and manifests of remote segments may take.",
)
REMOTE_LOG_INDEX_FILE_CACHE_TTL_MS = LONG("remote.log.index.file.cache.ttl.ms", 900_000, at_least(-1), internal=True)
REMOTE_LOG_MANAGER_THREAD_POOL_SIZE = INT("remote.log.manager.thread.pool.size", 2, AT_LEAST_1)
REMOTE_LOG_MANAGER_COPIER_THREAD_POOL_SIZE = INT(
    "remote.log.manager.copier.thread.pool.size",
    10,
    AT_LEAST_1,
    CLUSTER,
    "Of how many partitions segments are copied to tiered storage at the same time.",
)
REMOTE_LOG_MANAGER_EXPIRATION_THREAD_POOL_SIZE = INT(
    "remote.log.manager.expiration.thread.pool.size",
    10,
    AT_LEAST_1,
    CLUSTER,
    "Of how many partitions remote segments are removed at the same time.",
)
REMOTE_LOG_MANAGER_FOLLOWER_THREAD_POOL_SIZE = INT(
    "remote.log.manager.follower.thread.pool.size", 2, AT_LEAST_1, CLUSTER
)
REMOTE_LOG_MANAGER_TASK_INTERVAL_MS = LONG(
    "remote.log.manager.task.interval.ms",
    30_000,
    AT_LEAST_1,
    doc="How often a leader looks for segments to copy and to remove.",
)
REMOTE_LOG_MANAGER_TASK_RETRY_BACKOFF_MS = LONG(
    "remote.log.manager.task.retry.backoff.ms", 500, AT_LEAST_1, internal=True
)
REMOTE_LOG_MANAGER_TASK_RETRY_BACKOFF_MAX_MS = LONG(
    "remote.log.manager.task.retry.backoff.max.ms", 30_000, AT_LEAST_1, internal=True
)
REMOTE_LOG_MANAGER_TASK_RETRY_JITTER = DOUBLE(
    "remote.log.manager.task.retry.jitter", 0.2, between(0, 0.5), internal=True
)
REMOTE_LOG_READER_THREADS = INT(
    "remote.log.reader.threads",
    10,
    AT_LEAST_1,
    CLUSTER,
    "How many requests for records may be under way to the store at the same time.",
)
REMOTE_LOG_READER_MAX_PENDING_TASKS = INT(
    "remote.log.reader.max.pending.tasks",
    100,
    AT_LEAST_1,
    doc="How many reads of remote segments may wait; more are answered as empty, so that clients ask again.",
)
LOG_LOCAL_RETENTION_MS = LONG(
    "log.local.retention.ms",
    -2,
    at_least(-2),
    CLUSTER,
    "How long segments in tiered storage stay on the local disk as well; -2: as long as log.retention.ms.",
)
LOG_LOCAL_RETENTION_BYTES = LONG(
    "log.local.retention.bytes",
    -2,
    at_least(-2),
    CLUSTER,
    "How much of a partition in tiered storage stays on the local disk; -2: as much as log.retention.bytes.",
)
REMOTE_LOG_MANAGER_COPY_MAX_BYTES_PER_SECOND = LONG(
    "remote.log.manager.copy.max.bytes.per.second",
    LONG_MAX,
    AT_LEAST_1,
    CLUSTER,
    "How fast segments are copied to tiered storage, all together.",
)
REMOTE_LOG_MANAGER_COPY_QUOTA_WINDOW_NUM = INT(
    "remote.log.manager.copy.quota.window.num",
    11,
    AT_LEAST_1,
    doc="Over how many windows the speed of copying is measured.",
)
REMOTE_LOG_MANAGER_COPY_QUOTA_WINDOW_SIZE_SECONDS = INT(
    "remote.log.manager.copy.quota.window.size.seconds", 1, AT_LEAST_1, doc="How long each of these windows is."
)
REMOTE_LOG_MANAGER_FETCH_MAX_BYTES_PER_SECOND = LONG(
    "remote.log.manager.fetch.max.bytes.per.second",
    LONG_MAX,
    AT_LEAST_1,
    CLUSTER,
    "How fast records are fetched from tiered storage, all together.",
)
REMOTE_LOG_MANAGER_FETCH_QUOTA_WINDOW_NUM = INT(
    "remote.log.manager.fetch.quota.window.num",
    11,
    AT_LEAST_1,
    doc="Over how many windows the speed of such reads is measured.",
)
REMOTE_LOG_MANAGER_FETCH_QUOTA_WINDOW_SIZE_SECONDS = INT(
    "remote.log.manager.fetch.quota.window.size.seconds", 1, AT_LEAST_1, doc="How long each of these windows is."
)
REMOTE_FETCH_MAX_WAIT_MS = INT(
    "remote.fetch.max.wait.ms",
    500,
    AT_LEAST_1,
    CLUSTER,
    "How long a fetch waits for records from tiered storage, whatever its own max wait.",
)
REMOTE_LIST_OFFSETS_REQUEST_TIMEOUT_MS = LONG(
    "remote.list.offsets.request.timeout.ms",
    30_000,
    AT_LEAST_1,
    CLUSTER,
    "How long a ListOffsets by timestamp may take in tiered storage.",
)
FOLLOWER_FETCH_LAST_TIERED_OFFSET_ENABLE = BOOLEAN(
    "follower.fetch.last.tiered.offset.enable",
    False,
    None,
    CLUSTER,
    "Whether an empty replica begins after the last tiered offset, not at the leader's local log start (KIP-1023).",
)
# What Kafka leaves to its topic-based RemoteLogMetadataManager, under the default prefix
RLMM_CONFIG_REMOTE_LOG_METADATA_TOPIC_REPLICATION_FACTOR = SHORT(
    "rlmm.config.remote.log.metadata.topic.replication.factor",
    3,
    AT_LEAST_1,
    doc="The replication factor that __remote_log_metadata is created with; by default as far as there are brokers.",
    internal=True,  # Kafka's tools do not know it among a broker's settings either
)
RLMM_CONFIG_REMOTE_LOG_METADATA_TOPIC_NUM_PARTITIONS = INT(
    "rlmm.config.remote.log.metadata.topic.num.partitions",
    50,
    AT_LEAST_1,
    doc="How many partitions __remote_log_metadata is created with; those that it has win.",
    internal=True,
)
RLMM_CONFIG_REMOTE_LOG_METADATA_TOPIC_RETENTION_MS = LONG(
    "rlmm.config.remote.log.metadata.topic.retention.ms",
    -1,
    Check("-1 or at least 1", lambda value: value == -1 or value > 0),
    doc="How long __remote_log_metadata keeps its records.",
    internal=True,
)
RLMM_CONFIG_REMOTE_LOG_METADATA_TOPIC_MIN_ISR = SHORT(
    "rlmm.config.remote.log.metadata.topic.min.isr",
    2,
    AT_LEAST_1,
    doc="min.insync.replicas of __remote_log_metadata when it is created; at most as many as it has replicas.",
    internal=True,
)
RLMM_CONFIG_REMOTE_LOG_METADATA_CONSUME_WAIT_MS = LONG(
    "rlmm.config.remote.log.metadata.consume.wait.ms",
    120_000,
    AT_LEAST_0,
    doc="How long a node waits to read again what it wrote to __remote_log_metadata.",
    internal=True,
)
# Ours
KAVKA_REMOTE_STORAGE_URL = STRING.optional(
    "kavka.remote.storage.url",
    Check("file:///dir, s3://bucket/prefix, gs://, az:// or memory://", lambda value: "://" in value),
    doc="Where remote segments are kept: file:///dir, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix.",
    internal=True,
)
KAVKA_REMOTE_STORAGE_OPTIONS = LIST(
    "kavka.remote.storage.options",
    (),
    Check("a list of name=value", lambda value: all("=" in option for option in value)),
    doc="More about a cloud's store, as name=value (endpoint=http://127.0.0.1:9000,region=eu-west-1); no secrets.",
    internal=True,
)
KAVKA_REMOTE_STORAGE_TIMEOUT_MS = LONG(
    "kavka.remote.storage.timeout.ms",
    30_000,
    AT_LEAST_1,
    doc="How long one call to the store may take, an upload longer by its size, before it is tried again.",
    internal=True,
)
KAVKA_REMOTE_STORAGE_COMPRESSION = BOOLEAN(
    "kavka.remote.storage.compression",
    False,
    doc="Whether remote segments are compressed with zstd, whatever the batches in them are.",
    internal=True,
)
KAVKA_REMOTE_STORAGE_KEYS_FILE = STRING.optional(
    "kavka.remote.storage.keys.file",
    NOT_EMPTY,
    doc="A file with the keys that new remote segments are encrypted with; without it they are not.",
    internal=True,
)
KAVKA_REMOTE_CACHE_DIR = STRING.optional(
    "kavka.remote.cache.dir",
    NOT_EMPTY,
    doc="The cache of remote segments and of remote log metadata; else kavka-remote in the first log.dirs.",
    internal=True,
)
KAVKA_REMOTE_CACHE_BYTES = LONG(
    "kavka.remote.cache.bytes",
    1 << 30,
    AT_LEAST_0,
    doc="How much of the disk cached records of remote segments may take.",
    internal=True,
)
KAVKA_REMOTE_READ_BESIDE_BYTES_PER_SECOND = LONG(
    "kavka.remote.read.beside.bytes.per.second",
    32 << 20,
    AT_LEAST_1,
    CLUSTER,
    "How fast remote segments are read for clients while the node serves others; else there is no limit.",
    internal=True,
)
KAVKA_REMOTE_DELETE_DELAY_MS = LONG(
    "kavka.remote.delete.delay.ms",
    60_000,
    AT_LEAST_0,
    doc="How long a remote segment stays after its deletion began, so that fetches under way can finish.",
    internal=True,
)

SETTINGS: Final[dict[str, Setting[Any]]] = collect(globals())

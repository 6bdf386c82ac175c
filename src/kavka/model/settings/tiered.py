"""The settings of tiered storage (KIP-405)."""

from __future__ import annotations

from typing import Any, Final

from kavka.model.settings.types import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    DOUBLE,
    INT,
    LONG,
    LONG_MAX,
    NOT_EMPTY,
    STRING,
    Setting,
    Update,
    at_least,
    between,
    collect,
)

CLUSTER: Final = Update.CLUSTER
# Remote storage
REMOTE_LOG_STORAGE_SYSTEM_ENABLE = BOOLEAN("remote.log.storage.system.enable", False)
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
REMOTE_LOG_METADATA_CUSTOM_METADATA_MAX_BYTES = INT("remote.log.metadata.custom.metadata.max.bytes", 128, AT_LEAST_0)
REMOTE_LOG_INDEX_FILE_CACHE_TOTAL_SIZE_BYTES = LONG(
    "remote.log.index.file.cache.total.size.bytes", 1 << 30, AT_LEAST_1, CLUSTER
)
REMOTE_LOG_INDEX_FILE_CACHE_TTL_MS = LONG("remote.log.index.file.cache.ttl.ms", 900_000, at_least(-1), internal=True)
REMOTE_LOG_MANAGER_THREAD_POOL_SIZE = INT("remote.log.manager.thread.pool.size", 2, AT_LEAST_1)
REMOTE_LOG_MANAGER_COPIER_THREAD_POOL_SIZE = INT("remote.log.manager.copier.thread.pool.size", 10, AT_LEAST_1, CLUSTER)
REMOTE_LOG_MANAGER_EXPIRATION_THREAD_POOL_SIZE = INT(
    "remote.log.manager.expiration.thread.pool.size", 10, AT_LEAST_1, CLUSTER
)
REMOTE_LOG_MANAGER_FOLLOWER_THREAD_POOL_SIZE = INT(
    "remote.log.manager.follower.thread.pool.size", 2, AT_LEAST_1, CLUSTER
)
REMOTE_LOG_MANAGER_TASK_INTERVAL_MS = LONG("remote.log.manager.task.interval.ms", 30_000, AT_LEAST_1)
REMOTE_LOG_MANAGER_TASK_RETRY_BACKOFF_MS = LONG(
    "remote.log.manager.task.retry.backoff.ms", 500, AT_LEAST_1, internal=True
)
REMOTE_LOG_MANAGER_TASK_RETRY_BACKOFF_MAX_MS = LONG(
    "remote.log.manager.task.retry.backoff.max.ms", 30_000, AT_LEAST_1, internal=True
)
REMOTE_LOG_MANAGER_TASK_RETRY_JITTER = DOUBLE(
    "remote.log.manager.task.retry.jitter", 0.2, between(0, 0.5), internal=True
)
REMOTE_LOG_READER_THREADS = INT("remote.log.reader.threads", 10, AT_LEAST_1, CLUSTER)
REMOTE_LOG_READER_MAX_PENDING_TASKS = INT("remote.log.reader.max.pending.tasks", 100, AT_LEAST_1)
LOG_LOCAL_RETENTION_MS = LONG("log.local.retention.ms", -2, at_least(-2), CLUSTER)
LOG_LOCAL_RETENTION_BYTES = LONG("log.local.retention.bytes", -2, at_least(-2), CLUSTER)
REMOTE_LOG_MANAGER_COPY_MAX_BYTES_PER_SECOND = LONG(
    "remote.log.manager.copy.max.bytes.per.second", LONG_MAX, AT_LEAST_1, CLUSTER
)
REMOTE_LOG_MANAGER_COPY_QUOTA_WINDOW_NUM = INT("remote.log.manager.copy.quota.window.num", 11, AT_LEAST_1)
REMOTE_LOG_MANAGER_COPY_QUOTA_WINDOW_SIZE_SECONDS = INT(
    "remote.log.manager.copy.quota.window.size.seconds", 1, AT_LEAST_1
)
REMOTE_LOG_MANAGER_FETCH_MAX_BYTES_PER_SECOND = LONG(
    "remote.log.manager.fetch.max.bytes.per.second", LONG_MAX, AT_LEAST_1, CLUSTER
)
REMOTE_LOG_MANAGER_FETCH_QUOTA_WINDOW_NUM = INT("remote.log.manager.fetch.quota.window.num", 11, AT_LEAST_1)
REMOTE_LOG_MANAGER_FETCH_QUOTA_WINDOW_SIZE_SECONDS = INT(
    "remote.log.manager.fetch.quota.window.size.seconds", 1, AT_LEAST_1
)
REMOTE_FETCH_MAX_WAIT_MS = INT("remote.fetch.max.wait.ms", 500, AT_LEAST_1, CLUSTER)
REMOTE_LIST_OFFSETS_REQUEST_TIMEOUT_MS = LONG("remote.list.offsets.request.timeout.ms", 30_000, AT_LEAST_1, CLUSTER)
FOLLOWER_FETCH_LAST_TIERED_OFFSET_ENABLE = BOOLEAN("follower.fetch.last.tiered.offset.enable", False, None, CLUSTER)

SETTINGS: Final[dict[str, Setting[Any]]] = collect(globals())

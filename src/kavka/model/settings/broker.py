"""The settings of a node: its place in the cluster, its listeners, its logs and its metadata."""

from __future__ import annotations

from typing import Any, Final

from kavka.model.settings.types import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    CLASS,
    DOUBLE,
    DOUBLE_MAX,
    FILLED,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LONG_MAX,
    NO_BLANKS,
    SET,
    STRING,
    Check,
    Setting,
    Update,
    at_least,
    between,
    collect,
    one_of,
    one_of_any_case,
    some_of,
)

CLUSTER: Final = Update.CLUSTER
PER_BROKER: Final = Update.PER_BROKER


def _gzip_level(level: int) -> bool:
    return level == -1 or 1 <= level <= 9


GZIP_LEVEL: Final = Check("-1 or between 1 and 9", _gzip_level)
CODECS: Final = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES: Final = one_of("CreateTime", "LogAppendTime")
POLICIES: Final = some_of("compact", "delete")
PROTOCOLS: Final = one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LZ4_LEVEL: Final = between(1, 17)
ZSTD_LEVEL: Final = between(-131072, 22)


_ADDRESS: Final = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-%._:[]")


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    named = bool(host) and set(host) <= _ADDRESS
    return named and port.isascii() and port.isdigit() and int(port) < 65536


def _is_voter(text: str) -> bool:
    number, _, address = text.partition("@")
    return number.isascii() and number.isdigit() and _is_address(address)


VOTERS: Final = Check("a list of id@host:port", lambda voters: all(map(_is_voter, voters)))
ADDRESSES: Final = Check("a list of host:port", lambda servers: all(map(_is_address, servers)))


# The node
PROCESS_ROLES = SET(
    "process.roles",
    ("broker", "controller"),
    some_of("broker", "controller", empty=False),
    doc="What this process is: broker, controller or both. A standalone node is both.",
)
NODE_ID = INT(
    "node.id",
    1,
    AT_LEAST_0,
    doc="The number of this node, unique in the cluster. A standalone node that is not given one is 1.",
)
BROKER_ID = INT("broker.id", -1, doc="The older name of node.id; if both are set they must agree.")
BROKER_RACK = STRING.optional("broker.rack", doc="The rack or zone this broker says it is in.")
BACKGROUND_THREADS = INT("background.threads", 10, AT_LEAST_1, CLUSTER)
REQUEST_TIMEOUT_MS = INT("request.timeout.ms", 30_000, doc="How long a node waits for another node's answer.")
CONFIG_PROVIDERS = SET(
    "config.providers", (), NO_BLANKS, CLUSTER, "A part of Java: refused, as nothing would be put in for ${...}."
)
CONTROLLED_SHUTDOWN_ENABLE = BOOLEAN(
    "controlled.shutdown.enable",
    True,
    doc="Whether a broker that stops moves its leaders to others first; if not, these are elected when it is fenced.",
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = INT(
    "max.incremental.fetch.session.cache.slots",
    1000,
    AT_LEAST_0,
    doc="How many incremental fetch sessions are remembered.",
)
FETCH_MAX_BYTES = INT(
    "fetch.max.bytes",
    55 << 20,
    at_least(1024),
    doc="The most bytes one fetch response carries, whatever the client asks for.",
)
MAX_REQUEST_PARTITION_SIZE_LIMIT = INT(
    "max.request.partition.size.limit",
    2000,
    AT_LEAST_1,
    doc="The most partitions one DescribeTopicPartitions answer holds.",
)
UNSTABLE_API_VERSIONS_ENABLE = BOOLEAN(
    "unstable.api.versions.enable",
    False,
    internal=True,
    doc="Whether versions of APIs are offered that may still change.",
)
UNSTABLE_FEATURE_VERSIONS_ENABLE = BOOLEAN("unstable.feature.versions.enable", False, internal=True)
SERVER_MAX_STARTUP_TIME_MS = LONG("server.max.startup.time.ms", LONG_MAX, AT_LEAST_0, internal=True)

# Listeners, connections, requests
LISTENERS = SET(
    "listeners",
    ("PLAINTEXT://:9092",),
    FILLED,
    PER_BROKER,
    "The addresses to listen on, as NAME://host:port; an empty host is every interface, port 0 any free port.",
)
ADVERTISED_LISTENERS = SET.optional(
    "advertised.listeners", FILLED, doc="The addresses clients are told to use; by default those of listeners."
)
LISTENER_SECURITY_PROTOCOL_MAP = STRING(
    "listener.security.protocol.map",
    "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    None,
    PER_BROKER,
    "The security protocol of each listener name, as NAME:PROTOCOL.",
)
INTER_BROKER_LISTENER_NAME = STRING.optional(
    "inter.broker.listener.name", doc="The listener that brokers use among themselves."
)
SECURITY_INTER_BROKER_PROTOCOL = STRING(
    "security.inter.broker.protocol",
    "PLAINTEXT",
    PROTOCOLS,
    doc="The protocol brokers use among themselves when no inter-broker listener is named.",
)
CONTROLLER_LISTENER_NAMES = SET(
    "controller.listener.names",
    (),
    NO_BLANKS,
    doc="The listeners of the controller role; the first is the one other nodes use.",
)
NUM_IO_THREADS = INT("num.io.threads", 8, AT_LEAST_1, CLUSTER)
SOCKET_CONNECTION_SETUP_TIMEOUT_MS = LONG("socket.connection.setup.timeout.ms", 10_000)
SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS = LONG("socket.connection.setup.timeout.max.ms", 30_000)
EARLY_START_LISTENERS = SET.optional("early.start.listeners", NO_BLANKS)
SOCKET_SEND_BUFFER_BYTES = INT(
    "socket.send.buffer.bytes", 102_400, doc="The send buffer of client sockets; -1 leaves it to the system."
)
SOCKET_RECEIVE_BUFFER_BYTES = INT(
    "socket.receive.buffer.bytes", 102_400, doc="The receive buffer of client sockets; -1 leaves it to the system."
)
SOCKET_REQUEST_MAX_BYTES = INT(
    "socket.request.max.bytes",
    100 << 20,
    AT_LEAST_1,
    doc="The largest request accepted; a bigger one closes its connection.",
)
KAVKA_LIST_REQUEST_MAX_BYTES = INT(
    "kavka.list.request.max.bytes",
    8 << 20,
    between(256 << 10, INT_MAX),
    doc="The largest request accepted that carries no records, such as an OffsetCommit; its lists may have an item for"
    " every 64 of these bytes. Requests that name single things may have 256 KiB.",
    internal=True,  # not Kafka's: its tools are not shown it
)
SOCKET_LISTEN_BACKLOG_SIZE = INT(
    "socket.listen.backlog.size", 50, AT_LEAST_1, doc="How many connections may wait to be accepted."
)
MAX_CONNECTIONS_PER_IP = INT(
    "max.connections.per.ip", INT_MAX, AT_LEAST_0, CLUSTER, "How many connections one address may have."
)
MAX_CONNECTIONS_PER_IP_OVERRIDES = STRING(
    "max.connections.per.ip.overrides", "", None, CLUSTER, "Other limits for some addresses, as address:limit."
)
MAX_CONNECTIONS = INT(
    "max.connections", INT_MAX, AT_LEAST_0, CLUSTER, "How many connections the node accepts at a time."
)
MAX_CONNECTION_CREATION_RATE = INT(
    "max.connection.creation.rate",
    INT_MAX,
    AT_LEAST_0,
    CLUSTER,
    "How many connections a second the node accepts, or with listener.name.<listener>. before it one listener.",
)
CONNECTIONS_MAX_IDLE_MS = LONG(
    "connections.max.idle.ms", 600_000, doc="A connection that is silent for this long is closed."
)
QUEUED_MAX_REQUESTS = INT("queued.max.requests", 500, AT_LEAST_1)
QUEUED_MAX_REQUEST_BYTES = LONG(
    "queued.max.request.bytes",
    -1,
    doc="What requests that are not served yet and answers that are not taken may hold of memory, all connections"
    " together; -1 means 128 MiB. Who has no room waits, and who stands still meanwhile is closed.",
)
NUM_NETWORK_THREADS = INT("num.network.threads", 3, AT_LEAST_1, CLUSTER)

# Topics and their logs
MESSAGE_MAX_BYTES = INT("message.max.bytes", 1_048_588, AT_LEAST_0, CLUSTER, "The largest record batch accepted.")
KAVKA_MAX_DECOMPRESSED_MESSAGE_BYTES = INT(
    "kavka.max.decompressed.message.bytes",
    64 << 20,
    AT_LEAST_1,
    doc="The largest record batch accepted, decompressed.",
    internal=True,  # not Kafka's: its tools are not shown it
)
DELETE_TOPIC_ENABLE = BOOLEAN("delete.topic.enable", True, doc="Whether topics may be deleted.")
COMPRESSION_TYPE = STRING(
    "compression.type", "producer", CODECS, CLUSTER, "The codec batches are stored with; producer keeps the producer's."
)
COMPRESSION_GZIP_LEVEL = INT(
    "compression.gzip.level", -1, GZIP_LEVEL, CLUSTER, "The level when compression.type is gzip; -1 is the codec's own."
)
COMPRESSION_LZ4_LEVEL = INT("compression.lz4.level", 9, LZ4_LEVEL, CLUSTER, "The level when compression.type is lz4.")
COMPRESSION_ZSTD_LEVEL = INT(
    "compression.zstd.level", 3, ZSTD_LEVEL, CLUSTER, "The level when compression.type is zstd."
)
NUM_PARTITIONS = INT("num.partitions", 1, AT_LEAST_1, doc="The partitions of a topic created without a number.")
LOG_DIR = SET("log.dir", ("/tmp/kafka-logs",), FILLED, doc="The data directory, when log.dirs is not set.")
LOG_DIRS = SET.optional("log.dirs", FILLED, doc="The data directories.")
CORDONED_LOG_DIRS = SET(
    "cordoned.log.dirs",
    (),
    NO_BLANKS,
    PER_BROKER,
    "The log directories that no new replica goes to; * for all. What lies there stays.",
)
LOG_SEGMENT_BYTES = INT(
    "log.segment.bytes", 1 << 30, at_least(1 << 20), CLUSTER, "The size at which a log starts a new segment."
)
LOG_ROLL_MS = LONG.optional(
    "log.roll.ms", None, CLUSTER, "The age at which a log starts a new segment; without it log.roll.hours counts."
)
LOG_ROLL_HOURS = INT("log.roll.hours", 168, AT_LEAST_1, doc="The same in hours.")
LOG_ROLL_JITTER_MS = LONG.optional(
    "log.roll.jitter.ms",
    None,
    CLUSTER,
    "The most that is taken off the age by chance, so that logs do not all roll at once.",
)
LOG_ROLL_JITTER_HOURS = INT("log.roll.jitter.hours", 0, AT_LEAST_0, doc="The same in hours.")
LOG_RETENTION_MS = LONG.optional(
    "log.retention.ms",
    None,
    CLUSTER,
    "How long records are kept; -1 keeps them for ever. Without it log.retention.minutes counts.",
)
LOG_RETENTION_MINUTES = INT.optional(
    "log.retention.minutes", doc="The same in minutes; without it log.retention.hours counts."
)
LOG_RETENTION_HOURS = INT("log.retention.hours", 168, doc="The same in hours.")
LOG_RETENTION_BYTES = LONG(
    "log.retention.bytes",
    -1,
    None,
    CLUSTER,
    "How large a partition may grow before its oldest segments go; -1 is no limit.",
)
LOG_RETENTION_CHECK_INTERVAL_MS = LONG(
    "log.retention.check.interval.ms", 300_000, AT_LEAST_1, doc="How often logs are looked over for segments to delete."
)
LOG_CLEANUP_POLICY = SET(
    "log.cleanup.policy",
    ("delete",),
    POLICIES,
    CLUSTER,
    "What happens to old records: delete, compact, both or (empty) nothing.",
)
LOG_INDEX_SIZE_MAX_BYTES = INT(
    "log.index.size.max.bytes", 10 << 20, at_least(4), CLUSTER, "The largest offset or time index of a segment."
)
LOG_INDEX_INTERVAL_BYTES = INT(
    "log.index.interval.bytes", 4096, AT_LEAST_0, CLUSTER, "How many bytes of records lie between two index entries."
)
LOG_FLUSH_INTERVAL_MESSAGES = LONG(
    "log.flush.interval.messages", LONG_MAX, AT_LEAST_1, CLUSTER, "After how many records a log is forced to disk."
)
LOG_SEGMENT_DELETE_DELAY_MS = LONG(
    "log.segment.delete.delay.ms",
    60_000,
    AT_LEAST_0,
    CLUSTER,
    "How long a removed segment's files stay before they are deleted.",
)
LOG_FLUSH_SCHEDULER_INTERVAL_MS = LONG(
    "log.flush.scheduler.interval.ms", LONG_MAX, doc="How often logs are looked over for what must be forced to disk."
)
LOG_FLUSH_INTERVAL_MS = LONG.optional(
    "log.flush.interval.ms",
    None,
    CLUSTER,
    "How long a record may wait before its log is forced to disk; else the scheduler's interval.",
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = INT(
    "log.flush.offset.checkpoint.interval.ms", 60_000, AT_LEAST_0, doc="How often the recovery points are written down."
)
LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS = INT(
    "log.flush.start.offset.checkpoint.interval.ms",
    60_000,
    AT_LEAST_0,
    doc="How often the log start offsets are written down.",
)
LOG_PREALLOCATE = BOOLEAN(
    "log.preallocate", False, None, CLUSTER, "Whether a new segment's file takes its full size at once."
)
NUM_RECOVERY_THREADS_PER_DATA_DIR = INT("num.recovery.threads.per.data.dir", 2, AT_LEAST_1, CLUSTER)
AUTO_CREATE_TOPICS_ENABLE = BOOLEAN(
    "auto.create.topics.enable", True, doc="Whether a client may create a topic by asking for its metadata."
)
MIN_INSYNC_REPLICAS = INT(
    "min.insync.replicas", 1, AT_LEAST_1, CLUSTER, "How many replicas must have a record before acks=all is answered."
)
LOG_MESSAGE_TIMESTAMP_TYPE = STRING(
    "log.message.timestamp.type",
    "CreateTime",
    TIMESTAMP_TYPES,
    CLUSTER,
    "The timestamp of records: CreateTime from the producer or LogAppendTime from the broker.",
)
LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS = LONG(
    "log.message.timestamp.before.max.ms",
    LONG_MAX,
    AT_LEAST_0,
    CLUSTER,
    "How far a record's timestamp may lie before the broker's time.",
)
LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS = LONG(
    "log.message.timestamp.after.max.ms",
    3_600_000,
    AT_LEAST_0,
    CLUSTER,
    "How far a record's timestamp may lie after the broker's time.",
)
CREATE_TOPIC_POLICY_CLASS_NAME = CLASS.optional("create.topic.policy.class.name", doc="A part of Java: refused.")
ALTER_CONFIG_POLICY_CLASS_NAME = CLASS.optional("alter.config.policy.class.name", doc="A part of Java: refused.")
LOG_DIR_FAILURE_TIMEOUT_MS = LONG(
    "log.dir.failure.timeout.ms",
    30_000,
    AT_LEAST_1,
    doc="How long a broker may fail to tell the controller that a log directory is offline before it stops.",
)
LOG_INITIAL_TASK_DELAY_MS = LONG(
    "log.initial.task.delay.ms",
    30_000,
    AT_LEAST_0,
    internal=True,
)

# Compaction
LOG_CLEANER_THREADS = INT("log.cleaner.threads", 1, AT_LEAST_0, CLUSTER, "How many logs are compacted at a time.")
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = DOUBLE(
    "log.cleaner.io.max.bytes.per.second",
    DOUBLE_MAX,
    None,
    CLUSTER,
    "How much is read and written for compaction; each pass keeps the rate that it began with.",
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE = LONG(
    "log.cleaner.dedupe.buffer.size",
    1 << 27,
    None,
    CLUSTER,
    "The memory for the keys of what is compacted, shared by log.cleaner.threads.",
)
LOG_CLEANER_IO_BUFFER_SIZE = INT("log.cleaner.io.buffer.size", 524_288, AT_LEAST_0, CLUSTER)
LOG_CLEANER_IO_BUFFER_LOAD_FACTOR = DOUBLE("log.cleaner.io.buffer.load.factor", 0.9, None, CLUSTER)
LOG_CLEANER_BACKOFF_MS = LONG(
    "log.cleaner.backoff.ms",
    15_000,
    AT_LEAST_0,
    CLUSTER,
    "How long the cleaner rests when there is nothing to compact.",
)
LOG_CLEANER_MIN_CLEANABLE_RATIO = DOUBLE(
    "log.cleaner.min.cleanable.ratio",
    0.5,
    between(0, 1),
    CLUSTER,
    "The share of a log that must be uncompacted before it is compacted.",
)
KAVKA_LOG_LEVEL = STRING(
    "kavka.log.level",
    "info",
    one_of_any_case("debug", "info", "warning", "error"),
    doc="How much the node says on standard error.",
    internal=True,  # not Kafka's: its tools are not shown it
)
KAVKA_LOG_FORMAT = STRING(
    "kavka.log.format",
    "text",
    one_of("text", "json"),
    doc="Log lines for people, or a JSON object each: `time`, `level`, `logger`, `message`, `exception`.",
    internal=True,
)
KAVKA_METRICS_LISTENER = STRING.optional(
    "kavka.metrics.listener",
    Check("HOST:PORT", lambda value: value.rpartition(":")[0] != "" and value.rpartition(":")[2].isdecimal()),
    doc="HOST:PORT where Prometheus finds the metrics, at /metrics; not served by default.",
    internal=True,  # not Kafka's: its tools are not shown it
)
KAVKA_REGISTRY_LISTENER = STRING.optional(
    "kavka.registry.listener",
    Check("HOST:PORT", lambda value: value.rpartition(":")[0] != "" and value.rpartition(":")[2].isdecimal()),
    doc="HOST:PORT where the schema registry is served; not by default.",
    internal=True,
)
KAVKA_REGISTRY_SECURITY_PROTOCOL = STRING(
    "kavka.registry.security.protocol",
    "PLAINTEXT",
    PROTOCOLS,
    doc="How the registry's listener is secured; its other settings have `listener.name.registry.` before them.",
    internal=True,
)
KAVKA_CONSOLE_LISTENER = STRING.optional(
    "kavka.console.listener",
    Check("HOST:PORT", lambda value: value.rpartition(":")[0] != "" and value.rpartition(":")[2].isdecimal()),
    doc="HOST:PORT where the console is served, by a process of its own; not by default.",
    internal=True,
)
KAVKA_CONSOLE_SECURITY_PROTOCOL = STRING(
    "kavka.console.security.protocol",
    "PLAINTEXT",
    one_of("PLAINTEXT", "SSL"),
    doc="Whether browsers are served by HTTPS (SSL); its settings have `listener.name.console.` before them.",
    internal=True,
)
KAVKA_CONSOLE_READ_ONLY = BOOLEAN(
    "kavka.console.read.only",
    False,
    doc="Whether the console only shows, and neither produces nor resets offsets.",
    internal=True,
)
KAVKA_CONSOLE_CLIENT_CONFIG = STRING.optional(
    "kavka.console.client.config",
    doc="A client.properties by which the console connects; otherwise it follows this node's first listener that has "
    "clients log in, and people sign in; or the first if none has.",
    internal=True,
)
KAVKA_CONSOLE_HOSTS = LIST(
    "kavka.console.hosts",
    (),
    doc="Names by which browsers may ask for the console, beside addresses, localhost and this machine's own.",
    internal=True,
)
KAVKA_METRICS_DETAIL = STRING(
    "kavka.metrics.detail",
    "topic",
    one_of("node", "topic", "partition"),
    doc="How fine metrics of traffic, sizes and lag are: sums of the `node`, also by `topic`, or also by `partition`.",
    internal=True,
)
LOG_CLEANER_ENABLE = BOOLEAN("log.cleaner.enable", True, doc="Whether compacted topics are compacted.")
LOG_CLEANER_DELETE_RETENTION_MS = LONG(
    "log.cleaner.delete.retention.ms", 86_400_000, AT_LEAST_0, CLUSTER, "How long a tombstone stays in a compacted log."
)
LOG_CLEANER_MIN_COMPACTION_LAG_MS = LONG(
    "log.cleaner.min.compaction.lag.ms", 0, AT_LEAST_0, CLUSTER, "How long a record stays uncompacted at least."
)
LOG_CLEANER_MAX_COMPACTION_LAG_MS = LONG(
    "log.cleaner.max.compaction.lag.ms", LONG_MAX, AT_LEAST_1, CLUSTER, "How long a record stays uncompacted at most."
)

# Metadata and the controller quorum
INITIAL_BROKER_REGISTRATION_TIMEOUT_MS = INT(
    "initial.broker.registration.timeout.ms", 60_000, doc="How long a broker tries to be registered at its start."
)
BROKER_HEARTBEAT_INTERVAL_MS = INT(
    "broker.heartbeat.interval.ms", 2000, doc="How often a broker tells the controller that it lives."
)
BROKER_SESSION_TIMEOUT_MS = INT(
    "broker.session.timeout.ms",
    9000,
    doc="How long the controller waits for a heartbeat before it fences a broker.",
)
CONTROLLER_PERFORMANCE_SAMPLE_PERIOD_MS = LONG(
    "controller.performance.sample.period.ms", 60_000, at_least(100), internal=True
)
CONTROLLER_PERFORMANCE_ALWAYS_LOG_THRESHOLD_MS = LONG(
    "controller.performance.always.log.threshold.ms", 2000, AT_LEAST_0, internal=True
)
METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS = LONG(
    "metadata.log.max.record.bytes.between.snapshots",
    20 << 20,
    AT_LEAST_1,
    doc="How much may be written to the metadata log before a snapshot is taken.",
)
METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS = LONG(
    "metadata.log.max.snapshot.interval.ms",
    3_600_000,
    AT_LEAST_0,
    doc="How long the metadata log may go without a snapshot; 0 is for ever.",
)
METADATA_LOG_DIR = STRING.optional(
    "metadata.log.dir", doc="The directory of the metadata log; the first data directory by default."
)
METADATA_LOG_SEGMENT_BYTES = INT(
    "metadata.log.segment.bytes",
    1 << 30,
    at_least(1 << 23),
    doc="The size at which the metadata log starts a new segment.",
)
METADATA_LOG_SEGMENT_MS = LONG(
    "metadata.log.segment.ms", 604_800_000, doc="The age at which the metadata log starts a new segment."
)
METADATA_MAX_RETENTION_BYTES = LONG(
    "metadata.max.retention.bytes",
    100 << 20,
    doc="How large the metadata log and its snapshots may grow before the oldest go.",
)
METADATA_MAX_RETENTION_MS = LONG(
    "metadata.max.retention.ms",
    604_800_000,
    doc="How long metadata log segments and snapshots are kept once a newer snapshot is there.",
)
METADATA_MAX_IDLE_INTERVAL_MS = INT("metadata.max.idle.interval.ms", 500, AT_LEAST_0)
INTERNAL_METADATA_LOG_SEGMENT_BYTES = INT.optional("internal.metadata.log.segment.bytes", internal=True)
INTERNAL_METADATA_MAX_BATCH_SIZE_IN_BYTES = INT("internal.metadata.max.batch.size.in.bytes", 1 << 23, internal=True)
INTERNAL_METADATA_DELETE_DELAY_MILLIS = LONG("internal.metadata.delete.delay.millis", 60_000, internal=True)
CONTROLLER_QUORUM_VOTERS = LIST(
    "controller.quorum.voters", (), VOTERS, doc="The voters of a static quorum, as id@host:port."
)
CONTROLLER_QUORUM_BOOTSTRAP_SERVERS = LIST(
    "controller.quorum.bootstrap.servers",
    (),
    ADDRESSES,
    doc="Where to find the controllers of a dynamic quorum, as host:port.",
)
CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS = INT(
    "controller.quorum.election.timeout.ms",
    1000,
    AT_LEAST_0,
    doc="How long a voter tries to be elected, and a little by chance, before it begins anew.",
)
CONTROLLER_QUORUM_FETCH_TIMEOUT_MS = INT(
    "controller.quorum.fetch.timeout.ms",
    2000,
    AT_LEAST_0,
    doc="How long a voter goes without an answer of the leader before it stands for election.",
)
CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS = INT(
    "controller.quorum.election.backoff.max.ms",
    1000,
    AT_LEAST_0,
    doc="The longest that a voter leaves others the first chance after a leader has resigned.",
)
CONTROLLER_QUORUM_APPEND_LINGER_MS = INT("controller.quorum.append.linger.ms", 25, AT_LEAST_0)
CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS = INT(
    "controller.quorum.request.timeout.ms",
    2000,
    AT_LEAST_0,
    doc="How long the nodes of the quorum wait for an answer to a request.",
)
CONTROLLER_QUORUM_RETRY_BACKOFF_MS = INT(
    "controller.quorum.retry.backoff.ms",
    20,
    AT_LEAST_0,
    doc="How long a node of the quorum that did not answer is left alone.",
)
CONTROLLER_QUORUM_AUTO_JOIN_ENABLE = BOOLEAN(
    "controller.quorum.auto.join.enable", False, doc="Whether a controller that is no voter asks for a vote by itself."
)
CONTROLLER_QUORUM_FETCH_SNAPSHOT_MAX_BYTES = INT(
    "controller.quorum.fetch.snapshot.max.bytes",
    1 << 20,
    AT_LEAST_1,
    doc="How much of a snapshot of the metadata is fetched at once.",
)
CONTROLLER_QUORUM_FETCH_MAX_BYTES = INT(
    "controller.quorum.fetch.max.bytes", 1 << 20, AT_LEAST_1, doc="How much of the metadata log is fetched at once."
)

# Metrics
METRICS_NUM_SAMPLES = INT("metrics.num.samples", 2, AT_LEAST_1)
METRICS_SAMPLE_WINDOW_MS = LONG("metrics.sample.window.ms", 30_000, AT_LEAST_1)
METRIC_REPORTERS = SET("metric.reporters", ("org.apache.kafka.common.metrics.JmxReporter",), NO_BLANKS, CLUSTER)
METRICS_RECORDING_LEVEL = STRING("metrics.recording.level", "INFO")
KAFKA_METRICS_REPORTERS = SET("kafka.metrics.reporters", (), NO_BLANKS)
KAFKA_METRICS_POLLING_INTERVAL_SECS = INT("kafka.metrics.polling.interval.secs", 10, AT_LEAST_1)
TELEMETRY_MAX_BYTES = INT(
    "telemetry.max.bytes",
    1 << 20,
    AT_LEAST_1,
    doc="How much a client may push of its own metrics at once, compressed or not.",
)

SETTINGS: Final[dict[str, Setting[Any]]] = collect(globals())

"""The table of APIs: keys, names, versions, and which listeners serve them.

The table is here in full, so that knowing an API costs no import of its schema; a test holds it against the schemas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from kavka.model.errors import InvalidRequest


class ApiKey(IntEnum):
    """The keys by their names."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    GET_REPLICA_LOG_INFO = 93
    REGISTRY_CALL = 10000


class Api(NamedTuple):
    """One API: what a node must know before it reads a message of it."""

    key: int
    name: str
    stem: str  # of the module in kavka.protocol.schemas, and of all else that is called after the API
    min_version: int
    max_version: int
    flexible_from: int | None
    latest_version_unstable: bool
    listeners: frozenset[str]

    @property
    def latest_stable_version(self) -> int:
        """The highest version that is offered to everybody."""
        return self.max_version - 1 if self.latest_version_unstable else self.max_version

    def request(self) -> type[Any]:
        """The class of its requests."""
        return _schema(self.stem, f"{self.name}Request")

    def response(self) -> type[Any]:
        """The class of its responses."""
        return _schema(self.stem, f"{self.name}Response")

    def is_flexible(self, version: int) -> bool:
        """Whether a version has compact lengths and tagged fields."""
        return self.flexible_from is not None and version >= self.flexible_from

    def request_header_version(self, version: int) -> int:
        """The version of the header before a request."""
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """The version of the header before a response."""
        # A client that asks for the versions cannot know yet which header the node would choose (KIP-511).
        return 1 if self.is_flexible(version) and self.key != ApiKey.API_VERSIONS else 0


def api(key: int) -> Api:
    """The API of a key."""
    try:
        return API[key]
    except KeyError:
        raise InvalidRequest(f"there is no API with key {key}") from None


@cache
def _schema(stem: str, name: str) -> type[Any]:
    found: type[Any] = getattr(import_module(f"kavka.protocol.schemas.{stem}"), name)
    return found


# key, name, lowest and highest version, first flexible version, u = highest version not stable, listeners
_TABLE: Final = """
 0 Produce                       3 13  9 - broker
 1 Fetch                         4 18 12 - broker,controller
 2 ListOffsets                   1 11  6 - broker
 3 Metadata                      0 13  9 - broker
 8 OffsetCommit                  2 10  8 - broker
 9 OffsetFetch                   1 10  6 - broker
10 FindCoordinator               0  6  3 - broker
11 JoinGroup                     0  9  6 - broker
12 Heartbeat                     0  4  4 - broker
13 LeaveGroup                    0  5  4 - broker
14 SyncGroup                     0  5  4 - broker
15 DescribeGroups                0  6  5 - broker
16 ListGroups                    0  5  3 - broker
17 SaslHandshake                 0  1  - - broker,controller
18 ApiVersions                   0  4  3 - broker,controller
19 CreateTopics                  2  7  5 - broker,controller
20 DeleteTopics                  1  6  4 - broker,controller
21 DeleteRecords                 0  2  2 - broker
22 InitProducerId                0  6  2 u broker
23 OffsetForLeaderEpoch          2  4  4 - broker
24 AddPartitionsToTxn            0  5  3 - broker
25 AddOffsetsToTxn               0  4  3 - broker
26 EndTxn                        0  5  3 - broker
27 WriteTxnMarkers               1  2  1 - broker
28 TxnOffsetCommit               0  5  3 - broker
29 DescribeAcls                  1  3  2 - broker,controller
30 CreateAcls                    1  3  2 - broker,controller
31 DeleteAcls                    1  3  2 - broker,controller
32 DescribeConfigs               1  4  4 - broker,controller
33 AlterConfigs                  0  2  2 - broker,controller
34 AlterReplicaLogDirs           1  2  2 - broker
35 DescribeLogDirs               1  5  2 - broker
36 SaslAuthenticate              0  2  2 - broker,controller
37 CreatePartitions              0  3  2 - broker,controller
38 CreateDelegationToken         1  3  2 - broker,controller
39 RenewDelegationToken          1  2  2 - broker,controller
40 ExpireDelegationToken         1  2  2 - broker,controller
41 DescribeDelegationToken       1  3  2 - broker,controller
42 DeleteGroups                  0  2  2 - broker
43 ElectLeaders                  0  2  2 - broker,controller
44 IncrementalAlterConfigs       0  1  1 - broker,controller
45 AlterPartitionReassignments   0  1  0 - broker,controller
46 ListPartitionReassignments    0  0  0 - broker,controller
47 OffsetDelete                  0  0  - - broker
48 DescribeClientQuotas          0  1  1 - broker
49 AlterClientQuotas             0  1  1 - broker,controller
50 DescribeUserScramCredentials  0  0  0 - broker,controller
51 AlterUserScramCredentials     0  0  0 - broker,controller
52 Vote                          0  2  0 - controller
53 BeginQuorumEpoch              0  1  1 - controller
54 EndQuorumEpoch                0  1  1 - controller
55 DescribeQuorum                0  2  0 - broker,controller
56 AlterPartition                2  3  0 - controller
57 UpdateFeatures                0  2  0 - broker,controller
58 Envelope                      0  0  0 - controller
59 FetchSnapshot                 0  1  0 - controller
60 DescribeCluster               0  2  0 - broker,controller
61 DescribeProducers             0  0  0 - broker
62 BrokerRegistration            0  4  0 - controller
63 BrokerHeartbeat               0  2  0 - controller
64 UnregisterBroker              0  0  0 - broker,controller
65 DescribeTransactions          0  0  0 - broker
66 ListTransactions              0  2  0 - broker
67 AllocateProducerIds           0  0  0 - controller
68 ConsumerGroupHeartbeat        0  1  0 - broker
69 ConsumerGroupDescribe         0  1  0 - broker
70 ControllerRegistration        0  0  0 - controller
71 GetTelemetrySubscriptions     0  0  0 - broker
72 PushTelemetry                 0  0  0 - broker
73 AssignReplicasToDirs          0  0  0 - controller
74 ListConfigResources           0  1  0 - broker
75 DescribeTopicPartitions       0  0  0 - broker
76 ShareGroupHeartbeat           1  1  0 - broker
77 ShareGroupDescribe            1  1  0 - broker
78 ShareFetch                    1  2  0 - broker
79 ShareAcknowledge              1  2  0 - broker
80 AddRaftVoter                  0  1  0 - broker,controller
81 RemoveRaftVoter               0  0  0 - broker,controller
82 UpdateRaftVoter               0  0  0 - controller
83 InitializeShareGroupState     0  0  0 - broker
84 ReadShareGroupState           0  0  0 - broker
85 WriteShareGroupState          0  1  0 - broker
86 DeleteShareGroupState         0  0  0 - broker
87 ReadShareGroupStateSummary    0  1  0 - broker
88 StreamsGroupHeartbeat         0  0  0 - broker
89 StreamsGroupDescribe          0  0  0 - broker
90 DescribeShareGroupOffsets     0  1  0 - broker
91 AlterShareGroupOffsets        0  0  0 - broker
92 DeleteShareGroupOffsets       0  0  0 - broker
93 GetReplicaLogInfo             0  0  0 - broker
10000 RegistryCall               0  0  - - broker
"""


def _read_table() -> dict[int, Api]:
    table = {}
    for row in _TABLE.strip().splitlines():
        key, name, first, last, flexible, unstable, listeners = row.split()
        table[int(key)] = Api(
            key=int(key),
            name=name,
            stem=re.sub("(?<!^)(?=[A-Z])", "_", name).lower(),
            min_version=int(first),
            max_version=int(last),
            flexible_from=None if flexible == "-" else int(flexible),
            latest_version_unstable=unstable == "u",
            listeners=frozenset(listeners.split(",")),
        )
    return table


API: Final[Mapping[int, Api]] = _read_table()

OURS: Final = frozenset({int(ApiKey.GET_REPLICA_LOG_INFO), int(ApiKey.REGISTRY_CALL)})
"""The APIs that Kafka 4.3 does not have: nodes of ours ask them of each other."""

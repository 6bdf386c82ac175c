"""All cases in the order in which they are sent: later ones build on what earlier ones left."""

from __future__ import annotations

from jvm.differential.areas import (
    api_versions,
    configs,
    consumer_groups,
    fetch,
    group_offsets,
    groups,
    malformed,
    metadata,
    produce,
    quotas,
    share_groups,
    streams_groups,
    topics,
)
from jvm.differential.case import Case

AREAS: dict[str, list[Case]] = {
    "api versions": api_versions.CASES,
    "create topics": topics.CREATE,
    "metadata": metadata.METADATA,
    "produce": produce.PLAIN,
    "odd batches": produce.WRONG,
    "idempotent producers": produce.IDEMPOTENT,
    "filling": fetch.FILL,
    "fetch": fetch.FETCH,
    "fetch sessions": fetch.SESSIONS,
    "offsets": fetch.OFFSETS,
    "delete records": fetch.DELETE_RECORDS,
    "describe configs": configs.DESCRIBE,
    "change configs": configs.CHANGE,
    "cluster": metadata.CLUSTER,
    "features": configs.FEATURES,
    "quotas": quotas.CASES,
    "partitions": topics.PARTITIONS,
    "malformed": malformed.CASES,
    "delete topics": topics.DELETE,
    "coordinators": metadata.COORDINATORS,
    "before groups": groups.PREPARE,
    "join groups": groups.JOIN,
    "sync groups": groups.SYNC,
    "heartbeats": groups.HEARTBEAT,
    "commit offsets": group_offsets.COMMIT,
    "fetch offsets": group_offsets.FETCH,
    "delete offsets": group_offsets.DELETE,
    "static members": groups.STATIC,
    "look at groups": groups.LOOK,
    "consumer groups": consumer_groups.CASES,
    "streams groups": streams_groups.CASES,
    "share groups": share_groups.CASES,
    "leave groups": groups.LEAVE,
    "delete groups": groups.DELETE,
}
CASES = [case for area in AREAS.values() for case in area]

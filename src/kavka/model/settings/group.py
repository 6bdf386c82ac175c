"""The settings of a group, and the broker settings each of them follows when it is not set."""

from __future__ import annotations

import re
from typing import Any, Final

from kavka.model.settings import coordinators
from kavka.model.settings.types import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    INT,
    STRING,
    Check,
    Setting,
    Synonym,
    at_least,
    collect,
    one_of,
)

BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,](\d{0,9}))?S)?)?", re.IGNORECASE | re.ASCII
)


def _offset_reset(text: str) -> bool:
    if not text.startswith(BY_DURATION):
        return text in ("latest", "earliest")
    return _DURATION.fullmatch(text[len(BY_DURATION) :]) is not None and text[-1] not in "PpTt"


def reset_duration_ms(text: str) -> int:
    """How long ago a group begins that is reset by duration."""
    found = _DURATION.fullmatch(text.removeprefix(BY_DURATION))
    assert found is not None, text  # it was checked when it was set
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    fraction = (found[5] or "").ljust(3, "0")[:3]
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + int(fraction)


OFFSET_RESET: Final = Check("latest, earliest or by_duration:<ISO duration>", _offset_reset)

CONSUMER_SESSION_TIMEOUT_MS = INT(
    "consumer.session.timeout.ms",
    45_000,
    AT_LEAST_1,
    doc="How long a member of this group may be silent.",
    synonyms=(Synonym(coordinators.GROUP_CONSUMER_SESSION_TIMEOUT_MS),),
)
CONSUMER_HEARTBEAT_INTERVAL_MS = INT(
    "consumer.heartbeat.interval.ms",
    5000,
    AT_LEAST_1,
    doc="How often members of this group are heard of.",
    synonyms=(Synonym(coordinators.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS),),
)
CONSUMER_ASSIGNMENT_INTERVAL_MS = INT(
    "consumer.assignment.interval.ms",
    1000,
    AT_LEAST_0,
    doc="The least time between two assignments of this group.",
    synonyms=(Synonym(coordinators.GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS),),
)
SHARE_SESSION_TIMEOUT_MS = INT(
    "share.session.timeout.ms",
    45_000,
    AT_LEAST_1,
    synonyms=(Synonym(coordinators.GROUP_SHARE_SESSION_TIMEOUT_MS),),
    doc="How long a member of this share group may be silent.",
)
SHARE_HEARTBEAT_INTERVAL_MS = INT(
    "share.heartbeat.interval.ms",
    5000,
    AT_LEAST_1,
    synonyms=(Synonym(coordinators.GROUP_SHARE_HEARTBEAT_INTERVAL_MS),),
    doc="How often members of this share group are heard of.",
)
SHARE_RECORD_LOCK_DURATION_MS = INT(
    "share.record.lock.duration.ms",
    30_000,
    at_least(1000),
    synonyms=(Synonym(coordinators.GROUP_SHARE_RECORD_LOCK_DURATION_MS),),
    doc="How long a member of this share group has a record to itself.",
)
SHARE_DELIVERY_COUNT_LIMIT = INT(
    "share.delivery.count.limit",
    5,
    at_least(2),
    synonyms=(Synonym(coordinators.GROUP_SHARE_DELIVERY_COUNT_LIMIT),),
    doc="How often a record is delivered to this share group at most.",
)
SHARE_PARTITION_MAX_RECORD_LOCKS = INT(
    "share.partition.max.record.locks",
    2000,
    at_least(100),
    synonyms=(Synonym(coordinators.GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS),),
    doc="How many records of a partition this share group has in flight at most.",
)
SHARE_AUTO_OFFSET_RESET = STRING(
    "share.auto.offset.reset",
    "latest",
    OFFSET_RESET,
    doc="Where this share group begins in a partition that it has never read.",
)
SHARE_ISOLATION_LEVEL = STRING(
    "share.isolation.level",
    "read_uncommitted",
    one_of("read_committed", "read_uncommitted"),
    doc="Whether this share group gets records of transactions that are not committed.",
)
SHARE_RENEW_ACKNOWLEDGE_ENABLE = BOOLEAN(
    "share.renew.acknowledge.enable", True, doc="Whether members of this share group may lock their records for longer."
)
SHARE_ASSIGNMENT_INTERVAL_MS = INT(
    "share.assignment.interval.ms",
    1000,
    AT_LEAST_0,
    synonyms=(Synonym(coordinators.GROUP_SHARE_ASSIGNMENT_INTERVAL_MS),),
    doc="The least time between two assignments of this share group.",
)
ERRORS_DEADLETTERQUEUE_TOPIC_NAME = STRING(
    "errors.deadletterqueue.topic.name",
    "",
    doc="Where records go that this share group gives up; empty: nowhere (as from Kafka 4.4 on).",
)
ERRORS_DEADLETTERQUEUE_COPY_RECORD_ENABLE = BOOLEAN(
    "errors.deadletterqueue.copy.record.enable",
    False,
    doc="Whether key, value and headers go there as well, and not only where the record is (as from Kafka 4.4 on).",
)
KAVKA_SHARE_REDELIVERY_DELAY_MS = INT(
    "kavka.share.redelivery.delay.ms",
    0,
    AT_LEAST_0,
    doc="How long a record that was released waits before it is delivered again; twice as long each further time.",
)
KAVKA_SHARE_REDELIVERY_DELAY_MAX_MS = INT(
    "kavka.share.redelivery.delay.max.ms",
    0,
    AT_LEAST_0,
    doc="How long such a record waits at most, also if a member says how long; 0: always as long as the first time.",
)
STREAMS_SESSION_TIMEOUT_MS = INT(
    "streams.session.timeout.ms",
    45_000,
    AT_LEAST_1,
    doc="How long a member of this streams group may be silent.",
    synonyms=(Synonym(coordinators.GROUP_STREAMS_SESSION_TIMEOUT_MS),),
)
STREAMS_HEARTBEAT_INTERVAL_MS = INT(
    "streams.heartbeat.interval.ms",
    5000,
    AT_LEAST_1,
    doc="How often members of this streams group are heard of.",
    synonyms=(Synonym(coordinators.GROUP_STREAMS_HEARTBEAT_INTERVAL_MS),),
)
STREAMS_NUM_STANDBY_REPLICAS = INT(
    "streams.num.standby.replicas",
    0,
    AT_LEAST_0,
    doc="How many standby tasks each stateful task of this streams group has.",
    synonyms=(Synonym(coordinators.GROUP_STREAMS_NUM_STANDBY_REPLICAS),),
)
STREAMS_INITIAL_REBALANCE_DELAY_MS = INT(
    "streams.initial.rebalance.delay.ms",
    3000,
    AT_LEAST_0,
    doc="How long the first assignment of this streams group waits for others to join.",
    synonyms=(Synonym(coordinators.GROUP_STREAMS_INITIAL_REBALANCE_DELAY_MS),),
)
STREAMS_ASSIGNMENT_INTERVAL_MS = INT(
    "streams.assignment.interval.ms",
    1000,
    AT_LEAST_0,
    doc="The least time between two assignments of this streams group.",
    synonyms=(Synonym(coordinators.GROUP_STREAMS_ASSIGNMENT_INTERVAL_MS),),
)

SETTINGS: Final[dict[str, Setting[Any]]] = collect(globals())

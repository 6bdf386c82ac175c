"""Which names a topic may have, and which topics are the system's own."""

from __future__ import annotations

import re
from typing import Final

from kavka.model.errors import InvalidTopicException

CLUSTER_METADATA: Final = "__cluster_metadata"
CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
SCHEMAS: Final = "_schemas"
"""The registry's log; to clients a topic like any other, as it is with Confluent's registry."""
REMOTE_LOG_METADATA: Final = "__remote_log_metadata"
"""What remembers remote segments, each where the number of partitions says: it is never given more of them."""
AUDIT: Final = "__kavka_audit"
"""Where brokers write their audit logs; to be read like any other topic, but written only by them."""
ADMIN_CLIENT: Final = "__admin_client"
"""Kafka's word for who may write to internal topics."""
AUDIT_CLIENT: Final = f"{AUDIT}_client_"
"""What brokers call themselves, before their number, when they write their audit logs."""
REMOTE_LOG_METADATA_CLIENT: Final = f"{REMOTE_LOG_METADATA}_client_"
"""What brokers call themselves, before their number, when they write it: also those of Kafka."""
OF_BROKERS: Final = {AUDIT: AUDIT_CLIENT, REMOTE_LOG_METADATA: REMOTE_LOG_METADATA_CLIENT}
"""Topics that brokers write as clients of each other, and what they call themselves then."""
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})

MAX_TOPIC_NAME: Final = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z").match


def is_valid_topic_name(name: str) -> bool:
    """Whether a topic may have this name."""
    return name not in (".", "..") and len(name) <= MAX_TOPIC_NAME and _LEGAL(name) is not None


def validate_topic_name(name: str) -> None:
    """Raise InvalidTopicException, saying why, for a name that no topic may have."""
    if is_valid_topic_name(name):
        return
    if not name:
        raise InvalidTopicException("a topic name must not be empty")
    if name in (".", ".."):
        raise InvalidTopicException(f"a topic must not be named {name!r}")
    if len(name) > MAX_TOPIC_NAME:
        raise InvalidTopicException(f"a topic name has at most {MAX_TOPIC_NAME} characters, this one {len(name)}")
    raise InvalidTopicException(f"topic name {name!r} has characters other than a-z, A-Z, 0-9, '.', '_' and '-'")


def is_internal(name: str) -> bool:
    """Whether the topic is one that Kafka's coordinators keep their state in."""
    return name in INTERNAL_TOPICS


def is_write_protected(name: str) -> bool:
    """Whether clients do not write to the topic, whatever their rights."""
    return name in INTERNAL_TOPICS or name in OF_BROKERS


def may_write(client_id: str, name: str) -> bool:
    """Whether a client that calls itself so may write to a topic that is write-protected."""
    return client_id.startswith(OF_BROKERS[name]) if name in OF_BROKERS else client_id == ADMIN_CLIENT


def collision_key(name: str) -> str | None:
    """What two names must not have in common, as metrics write '.' as '_'; None if the name has neither."""
    return name.replace(".", "_") if "." in name or "_" in name else None

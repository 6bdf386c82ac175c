"""Whom a quota is for, and which of several counts (KIP-55, KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from ipaddress import IPv6Address, ip_address
from typing import Final


class QuotaType(StrEnum):
    """What is limited, by Kafka's names of the quotas."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"
    CONNECTION = "connection_creation_rate"


ALL: Final = ""
"""In a client: a quota for a user, or for a client id, alone."""

Client = tuple[str | None, str | None]
"""User and client id: None for those that have no quota of their own, empty where it does not matter."""
Bucket = tuple[str, str]
"""Who shares what a quota allows: a user with one client id, a user with all of them, a client id of all users."""

NO_LIMITS: Final[Mapping[Client, float]] = {}


def plain_address(text: str) -> str | None:
    """An address as sockets show it; None for what is none, the name of a host, say."""
    try:
        address = ip_address(text[1:-1] if text.startswith("[") and text.endswith("]") else text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(address if mapped is None else mapped)


def limit_of(limits: Mapping[Client, float], user: str, client_id: str) -> tuple[Bucket, float] | None:
    """The quota that counts for a client, most specific first, and who shares it; None if there is none."""
    for key, bucket in _levels(user, client_id):
        limit = limits.get(key)
        if limit is not None:
            return bucket, limit
    return None


def limit_of_bucket(limits: Mapping[Client, float], bucket: Bucket) -> float | None:
    """What those who share a bucket may use now."""
    shared_by, limit = limit_of(limits, *bucket) or (None, None)
    return limit if shared_by == bucket else None


def _levels(user: str, client_id: str) -> tuple[tuple[Client, Bucket], ...]:
    pair, whole_user, whole_client = (user, client_id), (user, ALL), (ALL, client_id)
    if not client_id:  # a client without an id has no part in what is for client ids
        return ((user, ALL), whole_user), ((None, ALL), whole_user)
    if not user:
        return ((ALL, client_id), whole_client), ((ALL, None), whole_client)
    return (
        ((user, client_id), pair),
        ((user, None), pair),
        ((user, ALL), whole_user),
        ((None, client_id), pair),
        ((None, None), pair),
        ((None, ALL), whole_user),
        ((ALL, client_id), whole_client),
        ((ALL, None), whole_client),
    )

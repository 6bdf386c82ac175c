"""The records of the metadata log (KIP-631): their schemas by concern, and their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

from kavka.model.errors import MalformedMessage
from kavka.protocol.frame import decode_frame_record, encode_frame_record
from kavka.protocol.primitives import Buffer

RECORDS: Final[Mapping[int, tuple[str, str]]] = {
    0: ("nodes", "RegisterBrokerRecord"),
    1: ("nodes", "UnregisterBrokerRecord"),
    2: ("topics", "TopicRecord"),
    3: ("topics", "PartitionRecord"),
    4: ("settings", "ConfigRecord"),
    5: ("topics", "PartitionChangeRecord"),
    7: ("nodes", "FenceBrokerRecord"),
    8: ("nodes", "UnfenceBrokerRecord"),
    9: ("topics", "RemoveTopicRecord"),
    10: ("security", "DelegationTokenRecord"),
    11: ("security", "UserScramCredentialRecord"),
    12: ("settings", "FeatureLevelRecord"),
    14: ("settings", "ClientQuotaRecord"),
    15: ("settings", "ProducerIdsRecord"),
    17: ("nodes", "BrokerRegistrationChangeRecord"),
    18: ("security", "AccessControlEntryRecord"),
    19: ("security", "RemoveAccessControlEntryRecord"),
    20: ("transactions", "NoOpRecord"),
    21: ("settings", "ZkMigrationStateRecord"),
    22: ("security", "RemoveUserScramCredentialRecord"),
    23: ("transactions", "BeginTransactionRecord"),
    24: ("transactions", "EndTransactionRecord"),
    25: ("transactions", "AbortTransactionRecord"),
    26: ("security", "RemoveDelegationTokenRecord"),
    27: ("nodes", "RegisterControllerRecord"),
    28: ("topics", "ClearElrRecord"),
}
"""Module and class of each record, by its key."""


@cache
def record_class(key: int) -> type[Any]:
    """The class of the records with a key."""
    try:
        module, name = RECORDS[key]
    except KeyError:
        raise MalformedMessage(f"there is no metadata record with key {key}") from None
    found: type[Any] = getattr(import_module(f"kavka.metadata.records.{module}"), name)
    return found


def encode_record(message: object, version: int) -> bytes:
    """The bytes of a record, as the value of a record in the metadata log."""
    return encode_frame_record(message, version)


def decode_record(data: Buffer) -> Any:
    """The record in the value of a record of the metadata log."""
    return decode_frame_record(record_class, data)

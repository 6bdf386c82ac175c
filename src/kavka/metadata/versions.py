"""Which version of a metadata record is written at a metadata.version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kavka.metadata.features import MV_CORDONED_DIRS, MV_DIRECTORIES, MV_ELR
from kavka.metadata.records.nodes import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from kavka.metadata.records.topics import PartitionChangeRecord, PartitionRecord


def write_version(record: Any, metadata_version: int) -> int:
    """The version to encode a record with, so that every node of the cluster can read it."""
    choose = _CHOICES.get(type(record))
    return 0 if choose is None else choose(record, metadata_version)


def _partition(_: Any, metadata_version: int) -> int:
    if metadata_version >= MV_ELR:
        return 2
    return 1 if metadata_version >= MV_DIRECTORIES else 0


def _broker(_: Any, metadata_version: int) -> int:
    if metadata_version >= MV_CORDONED_DIRS:
        return 4
    if metadata_version >= MV_DIRECTORIES:
        return 3
    return 2 if metadata_version >= 8 else 1


def _broker_change(record: BrokerRegistrationChangeRecord, _: int) -> int:
    """The oldest version that has the fields which are set, as Kafka writes it."""
    if record.cordoned_log_dirs is not None:
        return 3
    if record.log_dirs:
        return 2
    return 1 if record.in_controlled_shutdown else 0


_CHOICES: Final[Mapping[type, Callable[[Any, int], int]]] = {
    PartitionRecord: _partition,
    PartitionChangeRecord: _partition,
    RegisterBrokerRecord: _broker,
    BrokerRegistrationChangeRecord: _broker_change,
}

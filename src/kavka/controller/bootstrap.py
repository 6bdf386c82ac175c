"""The first records of a cluster, and what a new leader writes before anything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kavka.controller.configs import MIN_ISR
from kavka.controller.effective import Effective
from kavka.metadata.features import ELR_VERSION, LATEST_METADATA, METADATA_VERSION, MV_TRANSACTIONS, default_levels
from kavka.metadata.image import MetadataImage, ResourceType
from kavka.metadata.records.settings import ConfigRecord, FeatureLevelRecord
from kavka.metadata.records.transactions import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from kavka.model.settings import MIN_INSYNC_REPLICAS

_TRANSACTION: Final = "Bootstrap records"


def bootstrap_records(metadata_version: int = LATEST_METADATA) -> list[FeatureLevelRecord]:
    """What formatting leaves for the first leader to write: the feature levels of a release."""
    return [
        FeatureLevelRecord(name=name, feature_level=level) for name, level in default_levels(metadata_version).items()
    ]


def activation_records(image: MetadataImage, bootstrap: Sequence[Any], effective: Effective) -> tuple[Any, ...]:
    """What a new leader writes: on an empty log the bootstrap records, else the end of what was left open."""
    abort = [AbortTransactionRecord(reason="Controller failover")] if image.in_transaction else []
    before = image.before_transaction or image
    if before.features.metadata_version:
        return tuple(abort)
    levels = {record.name: record.feature_level for record in bootstrap if isinstance(record, FeatureLevelRecord)}
    records = list(bootstrap)
    if levels.get(ELR_VERSION, 0) > 0:
        # With ELR on, brokers must not each have their own idea of it (KIP-966).
        default = str(effective.static[MIN_INSYNC_REPLICAS])
        records.append(
            ConfigRecord(resource_type=int(ResourceType.BROKER), resource_name="", name=MIN_ISR, value=default)
        )
    if levels.get(METADATA_VERSION, 0) >= MV_TRANSACTIONS:
        records = [*abort, BeginTransactionRecord(name=_TRANSACTION), *records, EndTransactionRecord()]
    return tuple(records)

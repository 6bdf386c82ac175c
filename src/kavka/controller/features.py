"""Raising and lowering the finalized features of the cluster (KIP-584)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from kavka.controller.configs import elr_safety_records
from kavka.controller.effective import Effective
from kavka.metadata.features import (
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    MV_CONTROLLER_REGISTRATION,
    SUPPORTED,
    records_changed_between,
    unmet_need,
)
from kavka.metadata.image import MetadataImage
from kavka.metadata.records.settings import FeatureLevelRecord
from kavka.metadata.records.transactions import NoOpRecord
from kavka.model.errors import InvalidUpdateVersion
from kavka.model.transition import Transition


class UpgradeType(IntEnum):
    """What a request means to do to a feature, by its code on the wire."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """A level to finalize, and which way that is meant to go; level 0 switches the feature off."""

    level: int
    upgrade_type: int = UpgradeType.UPGRADE


UpgradeQuorum = Callable[[int, bool], None]
"""Has the quorum write a later kraft.version (or, if the second argument says so, only check whether it could)."""


def update(
    image: MetadataImage,
    effective: Effective,
    kraft_version: int,
    updates: Mapping[str, FeatureUpdate],
    validate_only: bool,
    upgrade_quorum: UpgradeQuorum | None,
) -> Transition[None]:
    """Finalize all the levels or none; raises InvalidUpdateVersion for the first that cannot be.

    The level of kraft.version is the quorum's to keep: it is asked last, when nothing else can be refused any more.
    """
    proposed = {**image.features.levels, **{name: wanted.level for name, wanted in updates.items()}}
    records: list[Any] = []
    for name, wanted in updates.items():
        _check(image, kraft_version, name, wanted, proposed)
        if name != KRAFT_VERSION:
            records.append(FeatureLevelRecord(name=name, feature_level=wanted.level))
    if KRAFT_VERSION in updates and updates[KRAFT_VERSION].level > kraft_version:
        if upgrade_quorum is None:
            raise _refused(KRAFT_VERSION, updates[KRAFT_VERSION].level, "this quorum cannot be upgraded")
        upgrade_quorum(updates[KRAFT_VERSION].level, validate_only)
        records.append(NoOpRecord())  # as in Kafka: whoever asked waits until this is committed, and what is before it
    if validate_only:
        return Transition(None)
    if ELR_VERSION in updates and updates[ELR_VERSION].level > 0:
        records = [*elr_safety_records(image.configs, effective), *records]
    return Transition(None, tuple(records))


def _check(
    image: MetadataImage, kraft_version: int, name: str, wanted: FeatureUpdate, proposed: Mapping[str, int]
) -> None:
    level = wanted.level
    now = kraft_version if name == KRAFT_VERSION else image.features.levels.get(name, 0)
    if wanted.upgrade_type not in list(UpgradeType):
        raise _refused(name, level, f"{wanted.upgrade_type} is no upgrade type")
    if level < 0:
        raise _refused(name, level, "a level is not negative")
    for who, (low, high) in _supporters(image, name):
        if not low <= level <= high:
            raise _refused(name, level, f"{who} " + (f"supports {low} to {high}" if high else "does not have it"))
    if level < now and wanted.upgrade_type == UpgradeType.UPGRADE:
        raise _refused(name, level, f"it is at {now}, and the request is not for a downgrade")
    if level > now and wanted.upgrade_type != UpgradeType.UPGRADE:
        raise _refused(name, level, f"it is at {now}, and the request is for a downgrade")
    if name == METADATA_VERSION:
        if level < now and records_changed_between(level, now):
            raise _refused(name, level, f"going back from {now} might lose what records say")
    elif name == KRAFT_VERSION:
        if level < now:
            raise _refused(name, level, f"it is at {now}, and it cannot go back")
    elif need := unmet_need(name, level, proposed):
        raise _refused(name, level, need)


def _supporters(image: MetadataImage, name: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Everybody who must support a level, and what they do support."""
    yield "this controller", SUPPORTED.get(name, (0, 0))
    for broker in image.cluster.brokers.values():
        yield f"broker {broker.id}", broker.features.get(name, (0, 0))
    if image.features.metadata_version >= MV_CONTROLLER_REGISTRATION:
        for controller in image.cluster.controllers.values():
            yield f"controller {controller.id}", controller.features.get(name, (0, 0))


def _refused(name: str, level: int, reason: str) -> InvalidUpdateVersion:
    return InvalidUpdateVersion(f"{name} cannot be set to {level}: {reason}")

"""The features of a Kafka 4.3 cluster: their levels, what each needs, and what a fresh cluster starts with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"


class MetadataLevel(NamedTuple):
    """A level of metadata.version: its name, and whether records changed with it."""

    name: str
    changed_records: bool


METADATA_LEVELS: Final[Mapping[int, MetadataLevel]] = {
    7: MetadataLevel("3.3-IV3", True),
    8: MetadataLevel("3.4-IV0", True),
    9: MetadataLevel("3.5-IV0", False),
    10: MetadataLevel("3.5-IV1", False),
    11: MetadataLevel("3.5-IV2", True),
    12: MetadataLevel("3.6-IV0", False),
    13: MetadataLevel("3.6-IV1", True),
    14: MetadataLevel("3.6-IV2", True),
    15: MetadataLevel("3.7-IV0", True),
    16: MetadataLevel("3.7-IV1", False),
    17: MetadataLevel("3.7-IV2", True),
    18: MetadataLevel("3.7-IV3", False),
    19: MetadataLevel("3.7-IV4", False),
    20: MetadataLevel("3.8-IV0", False),
    21: MetadataLevel("3.9-IV0", False),
    22: MetadataLevel("4.0-IV0", False),
    23: MetadataLevel("4.0-IV1", True),
    24: MetadataLevel("4.0-IV2", False),
    25: MetadataLevel("4.0-IV3", False),
    26: MetadataLevel("4.1-IV0", False),
    27: MetadataLevel("4.1-IV1", False),
    28: MetadataLevel("4.2-IV0", False),
    29: MetadataLevel("4.2-IV1", False),
    30: MetadataLevel("4.3-IV0", True),
}
OLDEST_METADATA: Final = min(METADATA_LEVELS)
LATEST_METADATA: Final = max(METADATA_LEVELS)

MV_ISR_SHRINK_KEEPS_EPOCH: Final = 12
MV_TRANSACTIONS: Final = 13
MV_CONTROLLER_REGISTRATION: Final = 15
MV_DIRECTORIES: Final = 17
MV_ELR: Final = 23
MV_CORDONED_DIRS: Final = 30


class Feature(NamedTuple):
    """A feature beside metadata.version; `since[level]` is the metadata.version that turns a level on by default."""

    name: str
    since: tuple[int, ...]
    needs: Mapping[int, Mapping[str, int]] = {}

    @property
    def latest(self) -> int:
        """The highest level."""
        return len(self.since) - 1


FEATURES: Final[Mapping[str, Feature]] = {
    feature.name: feature
    for feature in (
        Feature(KRAFT_VERSION, (7, 21)),
        Feature(TRANSACTION_VERSION, (7, 24, 24)),
        Feature(GROUP_VERSION, (7, 22)),
        Feature(ELR_VERSION, (7, 26), {1: {METADATA_VERSION: MV_ELR}}),
        Feature(SHARE_VERSION, (7, 28)),
        Feature(STREAMS_VERSION, (7, 29)),
    )
}

SUPPORTED: Final[Mapping[str, tuple[int, int]]] = {
    METADATA_VERSION: (OLDEST_METADATA, LATEST_METADATA),
    **{name: (0, feature.latest) for name, feature in FEATURES.items()},
}
"""The levels that this software can run at, as brokers and controllers register them."""


def default_levels(metadata_version: int = LATEST_METADATA) -> dict[str, int]:
    """The levels that a cluster formatted at a metadata.version starts with; kraft.version is the quorum's own."""
    levels = {METADATA_VERSION: metadata_version}
    for name in sorted(FEATURES):
        if name != KRAFT_VERSION:
            since = FEATURES[name].since
            levels[name] = max(level for level, at in enumerate(since) if at <= metadata_version)
    return {name: level for name, level in levels.items() if level > 0}


def unmet_need(name: str, level: int, levels: Mapping[str, int]) -> str | None:
    """Why a feature cannot be at a level beside the others' levels, or None if it can."""
    if name not in FEATURES:
        return "there is no such feature"
    for needed, at_least in FEATURES[name].needs.get(level, {}).items():
        if levels.get(needed, 0) < at_least:
            return f"{name} {level} needs {needed} {at_least} or later"
    if level > 0 and levels.get(METADATA_VERSION, 0) < OLDEST_METADATA:
        return f"{name} {level} needs {METADATA_VERSION} {OLDEST_METADATA} or later"
    return None


def records_changed_between(low: int, high: int) -> bool:
    """Whether going from one metadata.version down to another might lose what records say."""
    return any(METADATA_LEVELS[level].changed_records for level in range(low + 1, high + 1))


ALWAYS_ADVERTISED: Final = frozenset({METADATA_VERSION, KRAFT_VERSION})


def advertised(names: Collection[str], implemented: Collection[str]) -> list[str]:
    """The features that this node may tell clients of: those whose behaviour it really has."""
    return [name for name in names if name in ALWAYS_ADVERTISED or name in implemented]

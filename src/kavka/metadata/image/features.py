"""The finalized features of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kavka.metadata.faults import MetadataError
from kavka.metadata.features import ELR_VERSION, KRAFT_VERSION, METADATA_VERSION, SUPPORTED
from kavka.metadata.records.settings import FeatureLevelRecord


@dataclass(frozen=True, slots=True)
class FeaturesImage:
    """Each finalized feature and its level; kraft.version is not here, the quorum's control records hold it."""

    levels: Mapping[str, int]

    @property
    def metadata_version(self) -> int:
        """The level of metadata.version; 0 before the bootstrap records are written."""
        return self.levels.get(METADATA_VERSION, 0)

    @property
    def elr_enabled(self) -> bool:
        """Whether eligible leader replicas are tracked (KIP-966)."""
        return self.levels.get(ELR_VERSION, 0) >= 1


EMPTY_FEATURES = FeaturesImage({})


class FeaturesDraft:
    """The features image being changed by records."""

    def __init__(self, image: FeaturesImage) -> None:
        self.changed: set[str] = set()
        self._image = image
        self._levels = dict(image.levels)

    def feature_level(self, record: FeatureLevelRecord) -> None:
        """Set a feature to a level; level 0 removes it."""
        name, level = record.name, record.feature_level
        low, high = SUPPORTED.get(name, (0, 0))
        if not low <= level <= high:
            raise MetadataError(f"{name} is at level {level}, but this software supports only {low} to {high}")
        if name == KRAFT_VERSION:
            return  # KAFKA-18979: such records were written by mistake
        self.changed.add(name)
        if level == 0:
            self._levels.pop(name, None)
        else:
            self._levels[name] = level

    def build(self) -> FeaturesImage:
        """The image with the changes."""
        return FeaturesImage(self._levels) if self.changed else self._image

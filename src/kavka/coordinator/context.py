"""What the machines of one shard share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kavka.coordinator.requests import Match
from kavka.coordinator.settings import CoordinatorSettings, GroupSettings
from kavka.coordinator.timers import Deadlines
from kavka.coordinator.topics import Topics
from kavka.metadata.image import ConfigResource, MetadataImage, ResourceType
from kavka.model.types import Uuid


class ShardContext:
    """Settings, topics, deadlines and where ids come from. Nothing of it is remembered by the shard's log."""

    def __init__(
        self, settings: CoordinatorSettings, image: MetadataImage, new_id: Callable[[], Uuid], match: Match
    ) -> None:
        self.settings = settings
        self.topics = Topics(image)
        self.deadlines = Deadlines()
        self.new_id = new_id
        self.match = match
        self._groups: dict[str, GroupSettings] = {}

    def of_group(self, group_id: str) -> GroupSettings:
        """The settings of one group."""
        found = self._groups.get(group_id)
        if found is None:
            texts = self.topics.image.configs.of(ConfigResource(ResourceType.GROUP, group_id))
            found = self._groups[group_id] = self.settings.of_group(texts)
        return found

    def configure(self, settings: CoordinatorSettings) -> None:
        """The node's settings changed."""
        self.settings = settings
        self._groups.clear()

    def reconfigured(self, resources: Iterable[ConfigResource]) -> None:
        """The configuration of resources changed."""
        for resource in resources:
            if resource.type == ResourceType.GROUP:
                self._groups.pop(resource.name, None)

    def forget(self, group_id: str) -> None:
        """A group is gone."""
        self._groups.pop(group_id, None)

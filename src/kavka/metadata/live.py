"""The settings in force: what a node was started with, under what the cluster's metadata has set since (KIP-226).

One owner per node. Who needs a value asks here when it uses it, or subscribes to hear of changes; nobody keeps a copy
of what may change. What may be set at all is checked before it is written, not here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image.configs import ConfigResource, ConfigsImage, ResourceType
from kavka.metadata.image.metadata import EMPTY, MetadataImage
from kavka.model.settings.types import Setting
from kavka.model.settings.values import Values, group_values, topic_values, with_dynamic

T = TypeVar("T")

Subscriber = Callable[[Values], None]
"""Is told the node's settings after they have changed."""
Check = Callable[[Values], Awaitable[None]]
"""Is told the node's settings before they change, and raises SettingError if it cannot use them."""


class SettingsAt:
    """A node's settings as of any image; remembers the last answer, and nothing that an image does not say."""

    __slots__ = ("_of_all", "_own", "_values", "node_id", "static")

    def __init__(self, node_id: int, static: Values) -> None:
        self.node_id = node_id
        self.static = static
        """What the node was started with: for checking a change, and for what can only be set there."""
        self._own: Mapping[str, str] | None = None
        self._of_all: Mapping[str, str] | None = None
        self._values = static

    def broker(self, configs: ConfigsImage) -> Values:
        """The node's own: set for this broker, else for all brokers, else at its start, else the default."""
        own, of_all = configs.of_broker(self.node_id), configs.of_all_brokers
        if self._own is not own or self._of_all is not of_all:
            self._values = with_dynamic(self.static, own, of_all)
            self._own, self._of_all = own, of_all
        return self._values

    def topic(self, configs: ConfigsImage, name: str) -> Values:
        """A topic's: set for it, else what the node's come to; raises SettingError."""
        return topic_values(configs.of_topic(name), self.broker(configs))

    def group(self, configs: ConfigsImage, group_id: str) -> Values:
        """A group's: set for it, else what the node's come to; raises SettingError."""
        texts = configs.of(ConfigResource(ResourceType.GROUP, group_id))
        return group_values(texts, self.broker(configs))

    def concerns(self, delta: MetadataDelta) -> bool:
        """Whether a change of the metadata changes the node's own settings."""
        names = ("", str(self.node_id))
        return any(resource.type == ResourceType.BROKER and resource.name in names for resource in delta.configs)


class LiveSettings:
    """The settings in force on this node."""

    __slots__ = ("_at", "_checks", "_configs", "_subscribers", "values")

    def __init__(self, node_id: int, static: Values, image: MetadataImage = EMPTY) -> None:
        self._at = SettingsAt(node_id, static)
        self._configs = image.configs
        self.values = self._at.broker(image.configs)
        """The node's settings now: another object after a change."""
        self._subscribers: list[Subscriber] = []
        self._checks: list[Check] = []

    @property
    def static(self) -> Values:
        """What the node was started with."""
        return self._at.static

    def __getitem__(self, setting: Setting[T]) -> T:
        return self.values[setting]

    def topic(self, name: str) -> Values:
        """A topic's settings now; raises SettingError."""
        return self._at.topic(self._configs, name)

    def group(self, group_id: str) -> Values:
        """A group's settings now; raises SettingError."""
        return self._at.group(self._configs, group_id)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Tell of every change of the node's settings from now on, in the order of subscribing."""
        self._subscribers.append(subscriber)

    def ask_before(self, check: Check) -> None:
        """Have somebody asked before settings are changed, who raises SettingError for what cannot be used."""
        self._checks.append(check)

    async def check(self, values: Values) -> None:
        """Ask those who must agree to settings that the node is about to have; raises SettingError."""
        for check in self._checks:
            await check(values)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Go on to a later image: before everybody else who follows the metadata, who may ask for values."""
        self._configs = image.configs
        if self._at.concerns(delta):
            self.values = self._at.broker(image.configs)
            for subscriber in self._subscribers:
                subscriber(self.values)

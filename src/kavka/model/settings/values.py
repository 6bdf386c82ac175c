"""The values of one resource: typed, immutable, and knowing where each of them was set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

from kavka.model.settings import audit, broker, coordinators, group, otel, replication, security, tiered, topic
from kavka.model.settings.types import Setting, SettingError, Source, Update

T = TypeVar("T")

BROKER: Final[Mapping[str, Setting[Any]]] = {
    **broker.SETTINGS,
    **replication.SETTINGS,
    **coordinators.SETTINGS,
    **security.SETTINGS,
    **tiered.SETTINGS,
    **audit.SETTINGS,
    **otel.SETTINGS,
}
"""Every key a node accepts."""
TOPIC: Final[Mapping[str, Setting[Any]]] = topic.SETTINGS
"""Every key a topic accepts."""

BROKER_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "log.roll.ms": ("log.roll.ms", "log.roll.hours"),
    "log.roll.hours": ("log.roll.ms", "log.roll.hours"),
    "log.roll.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "log.roll.jitter.hours": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "log.retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "log.retention.minutes": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "log.retention.hours": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}
"""Broker keys that stand for one another, the strongest first."""

LISTENER_MECHANISM: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
"""Keys that a mechanism of a listener has for itself: `listener.name.<listener>.<mechanism>.` before them."""


class Layer(NamedTuple):
    """Texts that were set in one place."""

    source: Source
    texts: Mapping[str, str]


class Values:
    """Values by setting: `values[LOG_SEGMENT_BYTES]` is an int. Of several layers the first that has a key wins."""

    __slots__ = ("_inherited", "_parsed", "layers", "settings")

    def __init__(
        self, settings: Mapping[str, Setting[Any]], layers: tuple[Layer, ...], inherited: Mapping[str, Any]
    ) -> None:
        """Raises SettingError when a text does not parse; keys that are no settings are kept as text only."""
        parsed = dict(inherited) if any(layer.texts for layer in layers) else inherited
        for layer in reversed(layers):
            for name, text in layer.texts.items():
                setting = settings.get(name)
                if setting is not None:
                    parsed[name] = setting.parse(text)  # type: ignore[index]
        self.settings = settings
        self.layers = layers
        self._parsed = parsed
        self._inherited: dict[int, Mapping[str, Any]] = {}

    def __getitem__(self, setting: Setting[T]) -> T:
        return self._parsed.get(setting.name, setting.default)  # type: ignore[no-any-return]

    def __contains__(self, setting: Setting[Any]) -> bool:
        """Whether the key was set, rather than left to its default."""
        return any(setting.name in layer.texts for layer in self.layers)

    def __repr__(self) -> str:
        shown = {name: self.text(self.settings[name]) for name in self._parsed if name in self.settings}
        return f"Values({shown})"

    def text(self, setting: Setting[Any]) -> str | None:
        """The value as DescribeConfigs shows it; None when there is none or it is secret."""
        return None if setting.sensitive else setting.text(self[setting])

    def inherited(self, settings: Mapping[str, Setting[Any]]) -> Mapping[str, Any]:
        """What these broker values make of the settings that follow them, where that is not the default."""
        found = self._inherited.get(id(settings))
        if found is None:
            followed = {name: _followed(setting, self) for name, setting in settings.items() if setting.synonyms}
            found = {name: value for name, value in followed.items() if value != settings[name].default}
            self._inherited[id(settings)] = found
        return found


def _followed(setting: Setting[Any], values: Values) -> Any:
    """The value of the first synonym that has one."""
    for synonym, scale in setting.synonyms:
        value = values[synonym]
        if value is not None:
            if setting is topic.TOPIC_RETENTION_MS:
                return max(value * scale, -1)  # the broker's keys take any negative number for "no limit"
            return value if scale == 1 else value * scale
    return setting.default


def broker_values(static: Mapping[str, str]) -> Values:
    """The values of a node from its configuration file, environment and command line; raises SettingError."""
    texts = dict(static)
    for key, synonym in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if key in texts:
            texts.setdefault(synonym, texts[key])
    return Values(BROKER, (Layer(Source.STATIC, texts),), {})


def with_dynamic(static: Values, per_broker: Mapping[str, str], cluster: Mapping[str, str]) -> Values:
    """A node's values under the dynamic configuration of the cluster; what may not change or parse is left out."""
    layers = (
        Layer(Source.DYNAMIC_BROKER, {name: text for name, text in per_broker.items() if _usable(name, text, True)}),
        Layer(Source.DYNAMIC_DEFAULT, {name: text for name, text in cluster.items() if _usable(name, text, False)}),
    )
    return Values(BROKER, layers + static.layers[-1:], {})


def topic_values(overrides: Mapping[str, str], broker: Values) -> Values:
    """A topic's values: its own, else what the broker's settings make them; raises SettingError."""
    return Values(TOPIC, (Layer(Source.TOPIC, overrides),), broker.inherited(TOPIC))


def group_values(overrides: Mapping[str, str], broker: Values) -> Values:
    """A group's values: its own, else what the broker's settings make them; raises SettingError."""
    return Values(group.SETTINGS, (Layer(Source.GROUP, overrides),), broker.inherited(group.SETTINGS))


def broker_setting(name: str) -> Setting[Any] | None:
    """The setting a broker key stands for; `listener.name.<listener>.` may come before it."""
    found = BROKER.get(name)
    if found is None and (base := listener_base(name)):
        found = BROKER.get(base)
    return found


def listener_base(name: str) -> str | None:
    """The key behind a `listener.name.<listener>.[<mechanism>.]` prefix."""
    if not name.startswith("listener.name."):
        return None
    _, dot, base = name[len("listener.name.") :].partition(".")
    if not dot:
        return None
    return next((key for key in LISTENER_MECHANISM if base.endswith(key)), base)


def _usable(name: str, text: str, per_broker: bool) -> bool:
    setting = broker_setting(name)
    if setting is None:
        return True
    if setting.update is Update.READ_ONLY or (setting.update is Update.PER_BROKER and not per_broker):
        return False
    try:
        setting.parse(text)
    except SettingError:
        return False
    return True

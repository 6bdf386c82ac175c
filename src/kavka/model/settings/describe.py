"""What DescribeConfigs shows of a resource: each key's value, where it comes from and what else could have set it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kavka.model.settings import client_metrics
from kavka.model.settings.types import Setting, Source, Update
from kavka.model.settings.values import (
    BROKER,
    BROKER_SYNONYMS,
    Layer,
    Values,
    broker_setting,
    group_values,
    listener_base,
    topic_values,
)

NO_EFFECT: Final = "Accepted and reported; this node does not act on it."


class Alternative(NamedTuple):
    """A value that counts, or would count if those before it were not there: Kafka's "config synonym"."""

    name: str
    value: str | None
    source: Source


class Entry(NamedTuple):
    """One key of a resource as DescribeConfigs shows it; a secret has no value."""

    name: str
    value: str | None
    source: Source
    sensitive: bool
    read_only: bool
    synonyms: tuple[Alternative, ...]
    type_code: int
    documentation: str | None

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.source is Source.DEFAULT


def describe_broker(broker: Values, keys: Collection[str] | None = None) -> list[Entry]:
    """The entries of this node; `keys` keeps only some of them, and None or an empty list keeps all."""
    names = dict.fromkeys(name for name, setting in BROKER.items() if not setting.internal)
    names.update(dict.fromkeys(name for layer in broker.layers for name in layer.texts))
    return [_broker_entry(name, broker, broker.layers) for name in sorted(names) if not keys or name in keys]


def describe_cluster(broker: Values, keys: Collection[str] | None = None) -> list[Entry]:
    """The entries that are set for every broker of the cluster."""
    layers = tuple(layer for layer in broker.layers if layer.source is Source.DYNAMIC_DEFAULT)
    names = sorted(name for layer in layers for name in layer.texts)
    return [_broker_entry(name, broker, layers) for name in names if not keys or name in keys]


def describe_topic(overrides: Mapping[str, str], broker: Values, keys: Collection[str] | None = None) -> list[Entry]:
    """The entries of a topic with these overrides."""
    values = topic_values(overrides, broker)
    return [_following_entry(setting, values, broker) for setting in _chosen(values, keys)]


def describe_group(overrides: Mapping[str, str], broker: Values, keys: Collection[str] | None = None) -> list[Entry]:
    """The entries of a group with these overrides."""
    values = group_values(overrides, broker)
    return [_following_entry(setting, values, broker) for setting in _chosen(values, keys)]


def describe_client_metrics(overrides: Mapping[str, str], keys: Collection[str] | None = None) -> list[Entry]:
    """The entries of a client metrics subscription."""
    values = Values(client_metrics.SETTINGS, (Layer(Source.CLIENT_METRICS, overrides),), {})
    return [_entry(setting, values, _own(setting, values), read_only=False) for setting in _chosen(values, keys)]


def describe_loggers(levels: Mapping[str, str], keys: Collection[str] | None = None) -> list[Entry]:
    """The entries of loggers, by what they tell."""
    return [
        Entry(name, level, Source.BROKER_LOGGER, False, False, (), 0, None)
        for name, level in levels.items()
        if not keys or name in keys
    ]


def _chosen(values: Values, keys: Collection[str] | None) -> Iterator[Setting[Any]]:
    for name in sorted(values.settings):
        setting = values.settings[name]
        # like Kafka, an internal key is shown only when somebody has set it
        if (not keys or name in keys) and (not setting.internal or setting in values):
            yield setting


def _entry(setting: Setting[Any], values: Values, synonyms: tuple[Alternative, ...], read_only: bool) -> Entry:
    return Entry(
        name=setting.name,
        value=values.text(setting),
        source=synonyms[0].source if synonyms else Source.DEFAULT,
        sensitive=setting.sensitive,
        read_only=read_only,
        synonyms=synonyms,
        type_code=setting.kind.code,
        documentation=setting.doc or NO_EFFECT,
    )


def _own(setting: Setting[Any], values: Values) -> tuple[Alternative, ...]:
    found = (layer.source for layer in values.layers if setting.name in layer.texts)
    return tuple(Alternative(setting.name, values.text(setting), source) for source in found)


def _following_entry(setting: Setting[Any], values: Values, broker: Values) -> Entry:
    followed: tuple[Alternative, ...] = ()
    if setting.synonyms:
        followed = _broker_synonyms(setting.synonyms[0].setting.name, broker.layers)
    elif values.layers[0].source is Source.GROUP:
        followed = (Alternative(setting.name, setting.text(setting.default), Source.DEFAULT),)
    return _entry(setting, values, _own(setting, values) + followed, read_only=False)


def _broker_entry(name: str, broker: Values, layers: tuple[Layer, ...]) -> Entry:
    setting = broker_setting(name)
    synonyms = _broker_synonyms(name, layers, with_default=layers is broker.layers)
    source = synonyms[0].source if synonyms else Source.DEFAULT
    if setting is None:  # it may be a secret of a plug-in, so its value stays hidden, as in Kafka
        return Entry(name, None, source, True, True, synonyms, 0, None)
    if setting.name == name and layers is broker.layers:
        return _entry(setting, broker, synonyms, read_only=setting.update is Update.READ_ONLY)
    read_only = setting.name != name or setting.update is Update.READ_ONLY
    value = synonyms[0].value if synonyms else None
    kind, doc = setting.kind.code, setting.doc or NO_EFFECT
    return Entry(name, value, source, setting.sensitive, read_only, synonyms, kind, doc)


def _broker_synonyms(name: str, layers: tuple[Layer, ...], with_default: bool = True) -> tuple[Alternative, ...]:
    """The chain of a broker key: by layer, then by name; what comes before the key itself is left out, as in Kafka."""
    base = listener_base(name)
    names = BROKER_SYNONYMS.get(name, (name, base) if base else (name,))
    chain = [
        Alternative(synonym, None if _hidden(synonym) else layer.texts[synonym], layer.source)
        for layer in layers
        for synonym in names
        if synonym in layer.texts
    ]
    if with_default:
        settings = (BROKER[synonym] for synonym in names if synonym in BROKER)
        texts = ((setting, setting.text(setting.default)) for setting in settings if not setting.sensitive)
        chain += [Alternative(setting.name, text, Source.DEFAULT) for setting, text in texts if text is not None]
    first = next((index for index, alternative in enumerate(chain) if alternative.name == name), len(chain))
    return tuple(chain[first:])


def _hidden(name: str) -> bool:
    setting = broker_setting(name)
    return setting is None or setting.sensitive

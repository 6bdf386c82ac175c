"""The settings of one listener: what is set for it, or for a mechanism on it, before what is set for all of them."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from kavka.model.settings.types import Setting, SettingError
from kavka.model.settings.values import Values

T = TypeVar("T")


class Readable(Protocol):
    """Whatever settings can be asked of: a node's, a listener's, a client's."""

    def __getitem__(self, setting: Setting[T], /) -> T:
        """The value of a setting; raises SettingError where it is read late and is not allowed."""

    def __contains__(self, setting: Setting[Any], /) -> bool:
        """Whether the key was set, rather than left to its default."""


class ListenerValues:
    """A node's values under `listener.name.<listener>.`, and `listener.name.<listener>.<mechanism>.` before it."""

    __slots__ = ("_prefixes", "_values")

    def __init__(self, values: Values, listener: str, mechanism: str = "") -> None:
        prefix = f"listener.name.{listener.lower()}."
        self._values = values
        self._prefixes = (f"{prefix}{mechanism.lower()}.", prefix) if mechanism else (prefix,)

    def __getitem__(self, setting: Setting[T]) -> T:
        key = self.own_key(setting)
        if key is None:
            return self._values[setting]
        text = next(layer.texts[key] for layer in self._values.layers if key in layer.texts)
        try:
            return setting.parse(text)
        except SettingError as error:
            raise SettingError(str(error).replace(setting.name, key, 1)) from None

    def __contains__(self, setting: Setting[Any]) -> bool:
        return self.own_key(setting) is not None or setting in self._values

    def own_key(self, setting: Setting[Any]) -> str | None:
        """The key under which a setting is set for this listener alone, None where it is not."""
        keys = (prefix + setting.name for prefix in self._prefixes)
        return next((key for key in keys if any(key in layer.texts for layer in self._values.layers)), None)

"""How a node logs in at other nodes: by settings that may change while it runs."""

from __future__ import annotations

import logging
from typing import NamedTuple

from kavka.client.sasl import Begin, LoginSetup, login_of
from kavka.model.settings import SettingError, Values
from kavka.model.settings.listeners import ListenerValues
from kavka.security.sasl.exchange import SaslClient

logger = logging.getLogger(__name__)

Texts = frozenset[tuple[str, str]]


def texts_of(values: Values, prefix: str, *parts: str) -> Texts:
    """What is set for a listener, or for all, under keys that have one of some parts in them."""
    texts: dict[str, str] = {}
    for layer in reversed(values.layers):
        texts.update(layer.texts)
    return frozenset(
        (key, text)
        for key, text in texts.items()
        if (key.startswith(prefix) or not key.startswith("listener.name."))
        and any(part in key.removeprefix(prefix) for part in parts)
    )


class Made(NamedTuple):
    """A log-in and the settings that it was made of."""

    texts: Texts
    begin: Begin


class OwnLogin:
    """The log-in at listeners of a name."""

    def __init__(self, listener: str, mechanism: str, values: Values) -> None:
        """Raises SettingError for settings that cannot be honoured."""
        self._listener = listener
        self._mechanism = mechanism
        self._made: Made | None = None
        self._made = self._make(values)

    async def begin(self, host: str) -> SaslClient:
        """Begin an exchange with the node of a host, as settings are by now."""
        assert self._made is not None
        return await self._made.begin(host)

    def check(self, values: Values) -> None:
        """Raise SettingError for settings that this node could not log in with."""
        self._make(values)

    def follow(self, values: Values) -> None:
        """Log in by changed settings from now on."""
        try:
            self._made = self._make(values)
        except SettingError as error:
            logger.error("keeping this node's own log-in on %s: %s", self._listener, error)

    def _make(self, values: Values) -> Made:
        texts = texts_of(values, f"listener.name.{self._listener.lower()}.", "sasl.")
        if self._made is not None and texts == self._made.texts:
            return self._made  # with the tokens that it has
        setup = LoginSetup(self._mechanism, ListenerValues(values, self._listener, self._mechanism), {})
        try:
            return Made(texts, login_of(setup))
        except SettingError as error:
            raise SettingError(f"{error} (for this node's own log-in on {self._listener})") from None

"""Settings by reference (KIP-297): `${env:NAME}` stands for what a config provider has under that name.

References are resolved where a connection is opened, so what travels and is shown elsewhere is the reference.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from kavka.model.properties import parse_properties
from kavka.model.settings import SettingError

PROVIDERS: Final = "config.providers"
REFERENCE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
"""Kafka's pattern: provider, path (may be missing), key."""

Provider = Callable[[str, str], str]
"""What a path and a key stand for; raises LookupError or OSError if nothing does."""


def resolved(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with their references replaced by what the declared config providers have; raises SettingError."""
    providers = _declared(options)
    if not providers:
        return dict(options)
    return {
        name: _replaced(name, value, providers) if isinstance(value, str) and not name.startswith(PROVIDERS) else value
        for name, value in options.items()
    }


def _declared(options: Mapping[str, Any]) -> dict[str, Provider]:
    names = [part.strip() for part in str(options.get(PROVIDERS, "")).split(",") if part.strip()]
    return {name: _provider(options, name) for name in names}


def _provider(options: Mapping[str, Any], name: str) -> Provider:
    option = f"{PROVIDERS}.{name}.class"
    kind = options.get(option)
    if kind is None:
        raise SettingError(f"{option} is missing: it says what {name} in {PROVIDERS} is")
    known = _KAFKAS.get(str(kind).removeprefix("org.apache.kafka.common.config.provider."))
    return known if known is not None else _imported(option, str(kind))


def _imported(option: str, kind: str) -> Provider:
    module, colon, function = kind.partition(":")
    if not colon:
        raise SettingError(f"{option} is one of {', '.join(_KAFKAS)}, or MODULE:FUNCTION in Python, not {kind!r}")
    try:
        found: Provider = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise SettingError(f"{option}: {error}") from None
    return found


def _replaced(name: str, text: str, providers: Mapping[str, Provider]) -> str:
    def value(match: re.Match[str]) -> str:
        provider, path, key = match.group(1), match.group(2) or "", match.group(3)
        if provider not in providers:
            return match.group(0)
        try:
            return providers[provider](path, key)
        except (LookupError, OSError, ValueError) as error:
            raise SettingError(f"{name}: {match.group(0)} has no value: {type(error).__name__}: {error}") from None

    return REFERENCE.sub(value, text)


def _environment(path: str, key: str) -> str:
    if path:
        raise LookupError("an environment variable has no path")
    return os.environ[key]


def _file(path: str, key: str) -> str:
    """A key of a properties file."""
    from pathlib import Path

    return parse_properties(Path(path).read_text(encoding="utf-8"))[key]


def _directory(path: str, key: str) -> str:
    """A file of a directory, whole, as Kubernetes mounts secrets."""
    from pathlib import Path

    if Path(key).name != key:
        raise LookupError(f"{key} is not a file of {path}")
    return (Path(path) / key).read_text(encoding="utf-8")


_KAFKAS: Final[Mapping[str, Provider]] = {
    "EnvVarConfigProvider": _environment,
    "FileConfigProvider": _file,
    "DirectoryConfigProvider": _directory,
}

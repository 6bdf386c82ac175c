"""`kavka serve`: read the options and start the node.

Options are read by hand, because a node should be ready before an argument parser is imported; the text of
`kavka serve --help` is in `commands.py`, and a test holds the two together.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kavka.broker.ports import MakeRegistryFace

OPTIONS: Final = (
    "--data-dir",
    "--listen",
    "--advertise",
    "--console",
    "--registry",
    "--config",
    "--override",
    "--ready-file",
    "--log-level",
    "--log-format",
    "--accept-loss",
)
FLAGS: Final = ("--accept-loss",)
"""Options without a value."""


class UsageError(Exception):
    """The command line makes no sense."""


@dataclass(slots=True)
class ServeOptions:
    """What `kavka serve` was told."""

    data_dir: str | None = None
    listen: str | None = None
    console: str = "off"
    config: str | None = None
    override: list[str] = field(default_factory=list)
    ready_file: str | None = None
    advertise: str | None = None
    log_level: str | None = None
    log_format: str | None = None
    accept_loss: bool = False
    registry: str = "off"


def parse_serve(arguments: Sequence[str]) -> ServeOptions:
    """Read the options; raises UsageError."""
    options = ServeOptions()
    left = list(arguments)
    while left:
        name, equals, value = left.pop(0).partition("=")
        if name not in OPTIONS:
            raise UsageError(f"no such option: {name}" if name.startswith("-") else f"unexpected argument: {name}")
        if name in FLAGS:
            if equals:
                raise UsageError(f"option {name} takes no value")
            setattr(options, name[2:].replace("-", "_"), True)
            continue
        if not equals:
            if not left or left[0] in OPTIONS:
                raise UsageError(f"option {name} needs a value")
            value = left.pop(0)
        if name == "--override":
            options.override.append(value)
        else:
            setattr(options, name[2:].replace("-", "_"), value)
    if options.console != "off":
        raise UsageError("--console: this version has no console, only off is possible")
    return options


def registry_override(listener: str) -> list[str]:
    """The setting that --registry stands for."""
    return [] if listener == "off" else [f"kavka.registry.listener={listener}"]


def serve(arguments: Sequence[str]) -> int:
    """Run a node until it is told to stop; the exit code."""
    from kavka.broker.config import ConfigError, load_config

    try:
        options = parse_serve(arguments)
        config = load_config(
            options.config,
            environment=os.environ,
            overrides=[*options.override, *registry_override(options.registry)],
            data_dir=options.data_dir,
            listen=options.listen,
            advertise=options.advertise,
            log_level=options.log_level,
            log_format=options.log_format,
        )
    except UsageError as error:
        sys.stderr.write(f"kavka: {error} (see `kavka serve --help`)\n")
        return 2
    except ConfigError as error:
        sys.stderr.write(f"kavka: {error}\n")
        return 1
    from kavka.broker.main import run_node
    from kavka.model.settings import KAVKA_REGISTRY_LISTENER

    face: MakeRegistryFace | None = None
    if config.values[KAVKA_REGISTRY_LISTENER]:
        try:
            from kavka.console.registry import RegistryFace
        except ImportError as error:
            sys.stderr.write(f"kavka: the schema registry needs pip install 'kavka[registry]': {error}\n")
            return 1
        face = RegistryFace
    return run_node(
        config=replace(config, accept_loss=options.accept_loss), ready_file=options.ready_file, registry_face=face
    )

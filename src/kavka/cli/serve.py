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
    from kavka.broker.config import NodeConfig
    from kavka.broker.ports import MakeConsole, MakeRegistryFace

OPTIONS: Final = (
    "--data-dir",
    "--listen",
    "--advertise",
    "--console",
    "--console-read-only",
    "--registry",
    "--config",
    "--override",
    "--ready-file",
    "--log-level",
    "--log-format",
    "--accept-loss",
)
FLAGS: Final = ("--accept-loss", "--console-read-only")
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
    console_read_only: bool = False


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
    return options


def listener_overrides(options: ServeOptions) -> list[str]:
    """The settings that --registry and --console stand for."""
    found = {"kavka.registry.listener": options.registry, "kavka.console.listener": options.console}
    overrides = [f"{key}={listener}" for key, listener in found.items() if listener != "off"]
    return overrides + ["kavka.console.read.only=true"] * options.console_read_only


def console_of(config: NodeConfig) -> MakeConsole | None:
    """What serves the console of a node, if it has one; raises ConfigError where that cannot be."""
    from kavka.broker.config import ConfigError
    from kavka.model.settings import KAVKA_CONSOLE_LISTENER

    if config.values[KAVKA_CONSOLE_LISTENER] is None:
        return None
    from importlib.util import find_spec

    from kavka.console.process import NEEDS, ConsoleProcess

    missing = [name for name in NEEDS if find_spec(name) is None]
    if missing:
        raise ConfigError(f"the console needs pip install 'kavka[console]': there is no {missing[0]}")
    if "broker" not in config.roles:
        raise ConfigError("the console is a client of brokers: start it on a node that is one, or with `kavka console`")
    return ConsoleProcess


def serve(arguments: Sequence[str]) -> int:
    """Run a node until it is told to stop; the exit code."""
    from kavka.broker.config import ConfigError, load_config

    try:
        options = parse_serve(arguments)
        config = load_config(
            options.config,
            environment=os.environ,
            overrides=[*options.override, *listener_overrides(options)],
            data_dir=options.data_dir,
            listen=options.listen,
            advertise=options.advertise,
            log_level=options.log_level,
            log_format=options.log_format,
        )
        make_console = console_of(config)
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
        config=replace(config, accept_loss=options.accept_loss),
        ready_file=options.ready_file,
        registry_face=face,
        make_console=make_console,
    )

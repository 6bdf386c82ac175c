"""The log levels of a running node, by Kafka's names of levels."""

from __future__ import annotations

import logging
from typing import Final

ROOT: Final = "root"
TRACE: Final = 5
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}


def levels() -> dict[str, str]:
    """What each logger tells, whether that is set for it or for one above it."""
    known = logging.root.manager.loggerDict
    names = sorted(name for name, logger in known.items() if isinstance(logger, logging.Logger))
    return {ROOT: _name(logging.root), **{name: _name(logging.getLogger(name)) for name in names}}


def exists(name: str) -> bool:
    """Whether there is a logger of a name."""
    return name == ROOT or isinstance(logging.root.manager.loggerDict.get(name), logging.Logger)


def set_level(name: str, level: str | None) -> None:
    """Set what a logger tells; None leaves it to the one above it."""
    logger = logging.root if name == ROOT else logging.getLogger(name)
    logger.setLevel(logging.NOTSET if level is None else LEVELS[level])


def _name(logger: logging.Logger) -> str:
    """The level that comes next below what a logger tells, as there may be some of other libraries."""
    level = logger.getEffectiveLevel()
    return next((name for name, number in LEVELS.items() if level >= number), "TRACE")

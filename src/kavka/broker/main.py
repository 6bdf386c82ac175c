"""The process of a node: limits, signals, the ready file, and one line for what stops it from starting."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import re
import resource
import signal
import sys
from typing import TYPE_CHECKING, Final

import uvloop

from kavka.broker.collecting import NEVER
from kavka.broker.config import NodeConfig
from kavka.broker.limits import KEPT_FILES
from kavka.broker.ports import MakeConsole, MakeRegistryFace
from kavka.broker.wiring import Node, ReadyReport
from kavka.model.clock import SystemClock
from kavka.model.errors import InvalidConfig, KafkaStorageError, RequestTimedOut
from kavka.model.settings import KAVKA_LOG_FORMAT, KAVKA_LOG_LEVEL, SASL_JAAS_CONFIG, SettingError, Values
from kavka.model.settings.values import broker_setting
from kavka.model.types import EVERY_ADDRESS
from kavka.quorum.format import FormatError
from kavka.security.sasl.jaas import JaasError, parse_jaas
from kavka.storage.disk import Disk, RealDisk
from kavka.telemetry.logging import set_up_logging

if TYPE_CHECKING:
    from kavka.tiered.objects.base import ObjectStore

logger = logging.getLogger(__name__)

FEWEST_FILES: Final = 128
FEW_FILES: Final = 4096
"""Below this the operator is told how many connections there is room for."""
SECRET_OPTION: Final = re.compile("^user_|password|secret", re.IGNORECASE)
"""The options of a login module whose values are nobody's business."""


def run_node(
    *,
    config: NodeConfig,
    ready_file: str | None = None,
    disk: Disk | None = None,
    store: ObjectStore | None = None,
    registry_face: MakeRegistryFace | None = None,
    make_console: MakeConsole | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT; the exit status."""
    values = config.values
    set_up_logging(values[KAVKA_LOG_LEVEL], values[KAVKA_LOG_FORMAT], secrets=secrets_of(values))
    too_few = check_open_files(raise_open_files())
    if too_few is not None:
        sys.stderr.write(f"kavka: {too_few}\n")
        return 1
    for warning in config.warnings:
        logger.warning("%s", warning)
    status = 0
    said_ready: list[str] = []
    try:
        uvloop.run(serve(config, disk or RealDisk(), ready_file, said_ready, store, registry_face, make_console))
    except* (FormatError, InvalidConfig, KafkaStorageError, RequestTimedOut, SettingError, OSError) as errors:
        sys.stderr.write(f"kavka: {words_of(first_of(errors))}\n")
        status = 1
    finally:
        for path in said_ready:  # never one that another node wrote
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    return status


def first_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error inside of groups."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def words_of(error: BaseException) -> str:
    """An error for a person, who has no use for the system's numbers."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def all_served(report: ReadyReport) -> str:
    """What a node serves and where, for people."""
    also = {"the console": report.console, "the registry": report.registry, "metrics": report.metrics}
    places = [f"{what} at {where}" for what, where in also.items() if where is not None]
    return ", ".join([str(report.bootstrap or report.controller), *places])


async def serve(
    config: NodeConfig,
    disk: Disk,
    ready_file: str | None,
    said_ready: list[str],
    store: ObjectStore | None,
    registry_face: MakeRegistryFace | None,
    make_console: MakeConsole | None,
) -> None:
    """Run a node until it is told to stop."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stopping.set)

    def ready(report: ReadyReport) -> None:
        logger.info(
            "node %d of cluster %s serves %s%s",
            report.node_id,
            report.cluster_id,
            all_served(report),
            told_otherwise(config),
        )
        if ready_file is not None:  # after the line: who reads the file may look for it
            write_ready_file(ready_file, report)
            said_ready.append(ready_file)
        gc.collect()
        gc.freeze()
        if "broker" in config.roles:  # `Collecting` does it when nothing large is in memory
            gc.set_threshold(*gc.get_threshold()[:2], NEVER)

    node = Node(config, disk, SystemClock(), store=store, registry_face=registry_face, make_console=make_console)
    loop.add_signal_handler(signal.SIGHUP, node.reload)
    await node.run(ready, stopping)


def told_otherwise(config: NodeConfig) -> str:
    """Which address clients are told, where that is not the one that the node listens on."""
    everywhere = [endpoint for endpoint in config.listeners if endpoint.host in EVERY_ADDRESS]
    told = {endpoint.listener: endpoint.host for endpoint in config.advertised}
    names = ", ".join(dict.fromkeys(told[endpoint.listener] for endpoint in everywhere if endpoint.listener in told))
    return f"; it listens on every address, and clients are told to connect to {names}" if names else ""


def write_ready_file(path: str, report: ReadyReport) -> None:
    """Tell whoever waits, all at once."""
    fields = {**report._asdict(), "pid": os.getpid()}
    temporary = f"{path}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(fields, file)
        file.write("\n")
    os.replace(temporary, path)


def secrets_of(values: Values) -> list[str]:
    """What must never be seen in a log: every secret that was set, for whichever listener, and what is inside of it."""
    found: list[str] = []
    for layer in values.layers:
        for key, text in layer.texts.items():
            setting = broker_setting(key)
            if setting is not None and setting.sensitive:
                found.append(text)
            if setting is SASL_JAAS_CONFIG:
                with contextlib.suppress(JaasError):  # a line that cannot be read is told of elsewhere
                    options = parse_jaas(text).options.items()
                    found += [value for name, value in options if SECRET_OPTION.search(name)]
    return found


def raise_open_files() -> int:
    """Take as many file descriptors as the system gives without asking; how many those are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else sys.maxsize


def check_open_files(limit: int) -> str | None:
    """Why a node with so many file descriptors is not worth starting, if it is not; warns of few."""
    if limit < FEWEST_FILES:
        return f"only {limit} files may be open at a time (ulimit -n), and a node needs at least {FEWEST_FILES}"
    if limit < FEW_FILES:
        connections = limit // 2 - KEPT_FILES
        logger.warning(
            "only %d files may be open at a time (ulimit -n): that is enough for %d connections", limit, connections
        )
    return None

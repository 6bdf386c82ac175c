"""Opening a node's directories at its start: one that cannot be used is left out if the node can do without."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import replace

from kavka.broker.config import NodeConfig
from kavka.model.errors import KafkaStorageError
from kavka.model.settings import LOG_DIRS
from kavka.quorum.format import FormatError, NodeDirs, check_dirs, open_standalone_dirs
from kavka.storage.dirs import lock_dir, read_meta_properties
from kavka.storage.disk import Disk

logger = logging.getLogger(__name__)


def open_dirs(config: NodeConfig, disk: Disk, now_ms: int, held: ExitStack) -> NodeDirs:
    """The directories of a node, locked until `held` is closed, and formatted if that is for the node to do.

    A disk that fails takes its directory out of them, and is named in `lost`; the node does not start without the
    metadata log's, or without any for partitions. Raises KafkaStorageError or FormatError.
    """
    lost: dict[str, str] = {}
    for path in dict.fromkeys([*config.data_dirs, config.metadata_dir]):
        try:
            _open(disk, path, held)
        except OSError as error:
            is_file = isinstance(error, FileExistsError)
            why = f"{path} is a file, not a directory" if is_file else f"{path}: {error.strerror or error}"
            if path == config.metadata_dir or len(config.data_dirs) == 1:
                raise KafkaStorageError(f"{LOG_DIRS.name}: {why}") from None
            logger.error("log directory %s", why)
            lost[path] = why
    left = [path for path in config.data_dirs if path not in lost]
    if not left:
        raise KafkaStorageError(f"{LOG_DIRS.name}: no directory can be used: {'; '.join(lost.values())}")
    return replace(_formatted(config, disk, left, now_ms), lost=lost)


def _open(disk: Disk, path: str, held: ExitStack) -> None:
    disk.mkdir(path)
    disk.listdir(path)
    held.callback(lock_dir(disk, path).release)
    try:
        read_meta_properties(disk, path)
    except KafkaStorageError:
        return  # it can be read; what is wrong with it is said elsewhere


def _formatted(config: NodeConfig, disk: Disk, data_dirs: list[str], now_ms: int) -> NodeDirs:
    if config.standalone:
        return open_standalone_dirs(disk, data_dirs, config.metadata_dir, node_id=config.node_id, now_ms=now_ms)
    found = check_dirs(disk, data_dirs, config.metadata_dir, node_id=config.node_id)
    if found is None:
        # a voter that lost its data must not come back as if it had never voted
        raise FormatError(f"{config.metadata_dir} is not formatted: run `kavka format` for a node of a cluster")
    return found

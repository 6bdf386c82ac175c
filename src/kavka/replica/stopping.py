"""The end of a clean stop: everything on disk, and only then a mark that says so."""

from __future__ import annotations

import logging

from kavka.model.errors import KafkaStorageError
from kavka.replica.manager import ReplicaManager
from kavka.storage.dirs import write_clean_shutdown

logger = logging.getLogger(__name__)


def stop_cleanly(replicas: ReplicaManager, broker_epoch: int, *, also: str = "") -> None:
    """Write everything out; a directory with a log that failed is not marked, so that the next start looks at it.

    Nor is one with a log that could not even be created, or recovered at the start: what is torn there still is.

    `also` is a directory without logs of partitions, which is in order already.
    """
    unsound = {directory for directory in replicas.dirs if directory.to_recover}
    for partition in replicas:
        try:
            partition.log.close(sync=False)
            if partition.failed is not None:
                raise KafkaStorageError(partition.failed)
        except KafkaStorageError as error:
            logger.error("%s", error)
            unsound.add(replicas.directory_of(partition))
    for future in replicas.futures:
        try:
            future.log.close(sync=False)
        except KafkaStorageError as error:
            logger.error("%s", error)
            unsound.add(future.directory)
    for directory in replicas.dirs:
        if not directory.online:
            continue
        try:
            replicas.disk.sync_filesystem(directory.path)
            replicas.checkpoints.write_all(directory)
            if directory not in unsound:
                write_clean_shutdown(replicas.disk, directory.path, broker_epoch)
        except OSError as error:
            logger.error("log directory %s: flush at shutdown failed: %s", directory.path, error)
    if also and also not in {directory.path for directory in replicas.dirs}:
        write_clean_shutdown(replicas.disk, also, broker_epoch)

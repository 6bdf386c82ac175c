"""Making empty directories a node's own, and checking that formatted ones are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kavka.controller.bootstrap import bootstrap_records
from kavka.controller.scram import parse_scram
from kavka.metadata.features import (
    FEATURES,
    KRAFT_VERSION,
    LATEST_METADATA,
    METADATA_LEVELS,
    METADATA_VERSION,
    default_levels,
    unmet_need,
)
from kavka.metadata.image.cluster import is_reserved
from kavka.metadata.names import CLUSTER_METADATA
from kavka.metadata.records import encode_record
from kavka.metadata.records.settings import FeatureLevelRecord
from kavka.metadata.versions import write_version
from kavka.model.errors import KafkaStorageError
from kavka.model.types import Endpoint, Uuid
from kavka.quorum.snapshots import BOOTSTRAP_FILE, BOOTSTRAP_ID, encode_snapshot, read_snapshot, store_snapshot
from kavka.quorum.voters import ControlState, ReplicaKey, Voter
from kavka.storage import files
from kavka.storage.dirs import MetaProperties, read_meta_properties, write_meta_properties
from kavka.storage.disk import Disk

METADATA_LOG: Final = f"{CLUSTER_METADATA}-0"
CONTROLLER_ENDPOINT: Final = Endpoint("CONTROLLER", "localhost", 9093, "PLAINTEXT")
"""Where a standalone node's controller would be reached, if others were ever to join."""

SALT_BYTES: Final = 24

_LEFT_BY_FORMAT: Final = frozenset(
    {METADATA_LOG, BOOTSTRAP_FILE, BOOTSTRAP_FILE + ".tmp", files.META_PROPERTIES + ".tmp", files.LOCK, "lost+found"}
)
"""What a directory may hold and still count as empty: the rest of a formatting that was cut off can be done over."""


class FormatError(Exception):
    """Directories that cannot be formatted or used: one line that says which and why."""


@dataclass(frozen=True, slots=True)
class NodeDirs:
    """The directories of a node, checked: whose they are, and each one's id."""

    cluster_id: str
    node_id: int
    metadata_dir: str
    directory_ids: dict[str, Uuid]
    lost: Mapping[str, str] = field(default_factory=dict)
    """Those that could not be opened, and why; they have no id."""

    @property
    def metadata_directory_id(self) -> Uuid:
        """The id of the directory with the metadata log: what a voter is known by."""
        return self.directory_ids[self.metadata_dir]


def random_id(entropy: Callable[[int], bytes] = os.urandom) -> Uuid:
    """A fresh id; one whose text begins with a dash would be taken for an option on a command line."""
    while True:
        raw = bytearray(entropy(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        id_ = Uuid(raw)
        if not is_reserved(id_) and not str(id_).startswith("-"):
            return id_


def format_dirs(
    disk: Disk,
    dirs: Sequence[str],
    metadata_dir: str,
    *,
    cluster_id: str,
    node_id: int,
    now_ms: int,
    controller: Endpoint | None = CONTROLLER_ENDPOINT,
    initial_controllers: Sequence[Voter] = (),
    metadata_version: int = LATEST_METADATA,
    levels: Mapping[str, int] | None = None,
    ignore_formatted: bool = False,
    new_id: Callable[[], Uuid] = random_id,
    records: Sequence[Any] = (),
) -> NodeDirs:
    """Format the directories of a node as `kafka-storage format` does; raises FormatError.

    With a controller endpoint the node is the one voter of a new cluster (`--standalone`). With initial controllers
    those vote, be this node one of them or not. With neither it learns its voters from its configuration or from the
    quorum that it finds there (`--no-initial-controllers`). `levels` are those of `feature_levels`; `records` are
    written by the first leader as well: credentials that the cluster has from the beginning.
    """
    _check_cluster_id(cluster_id)
    everywhere = list(dict.fromkeys([*dirs, metadata_dir]))
    known = {path: _read(disk, path) for path in everywhere}
    for path, meta in known.items():
        if meta is None:
            _check_empty(disk, path)
        elif not ignore_formatted:
            raise FormatError(f"{path} is formatted already, for node {meta.node_id} of cluster {meta.cluster_id}")
        else:
            _check_owner(path, meta, cluster_id, node_id)
    mine = next((voter.key.directory_id for voter in initial_controllers if voter.key.id == node_id), None)
    ids: dict[str, Uuid] = {}
    for path, meta in known.items():
        if meta is not None and meta.directory_id is not None:
            ids[path] = meta.directory_id
        else:
            ids[path] = mine if path == metadata_dir and mine is not None else new_id()
    bootstrap = [*(bootstrap_records(metadata_version) if levels is None else records_of_levels(levels)), *records]
    voters = tuple(initial_controllers)
    if not voters and controller is not None:
        voters = (Voter(ReplicaKey(node_id, ids[metadata_dir]), (controller,)),)
    for path in everywhere:
        if known[path] is None:
            chosen = voters if path == metadata_dir else ()
            _format_one(disk, path, MetaProperties(cluster_id, node_id, ids[path]), bootstrap, chosen, now_ms)
    return NodeDirs(cluster_id, node_id, metadata_dir, ids)


def parse_initial_controllers(text: str, listener: str) -> tuple[Voter, ...]:
    """Read `--initial-controllers`: ID@HOST:PORT:DIRECTORY-ID of each, comma-separated; raises FormatError."""
    voters = tuple(_parse_controller(part.strip(), listener) for part in text.split(",") if part.strip())
    if not voters:
        raise FormatError("no initial controllers were given")
    seen: set[int] = set()
    for voter in voters:
        if voter.key.id in seen:
            raise FormatError(f"node {voter.key.id} is named more than once among the initial controllers")
        seen.add(voter.key.id)
    return voters


def _parse_controller(text: str, listener: str) -> Voter:
    node, at, rest = text.partition("@")
    address, colon, directory = rest.rpartition(":")
    host, second, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    shaped = at and colon and second and host and (bracketed or ":" not in host)
    if not shaped or not node.isdecimal() or not (port.isdecimal() and int(port) < 65536):
        raise FormatError(f"{text!r} is not ID@HOST:PORT:DIRECTORY-ID")
    try:
        directory_id = Uuid.parse(directory)
    except ValueError:
        raise FormatError(f"{text!r}: the directory id is not 22 characters of base64url") from None
    if is_reserved(directory_id):
        raise FormatError(f"{text!r}: no directory can have the reserved id {directory}")
    endpoint = Endpoint(listener, host[1:-1] if bracketed else host, int(port), "")
    return Voter(ReplicaKey(int(node), directory_id), (endpoint,))


def parse_scram_users(texts: Iterable[str]) -> list[Any]:
    """Read `--add-scram` options: the credentials of a cluster's first users; raises FormatError."""
    found = []
    for text in texts:
        try:
            found.append(parse_scram(text, lambda: os.urandom(SALT_BYTES)))
        except ValueError as error:
            raise FormatError(f"--add-scram: {error}") from None
    return found


def parse_release(text: str) -> int:
    """The metadata.version of a release, as 4.3 or 4.3-IV0; raises FormatError."""
    for level, known in sorted(METADATA_LEVELS.items(), reverse=True):
        if known.name == text or known.name.partition("-")[0] == ".".join(text.split(".")[:2]) == text:
            return level
    names = ", ".join(dict.fromkeys(known.name.partition("-")[0] for known in METADATA_LEVELS.values()))
    raise FormatError(f"there is no release {text!r}: known are {names}")


def parse_features(texts: Iterable[str]) -> dict[str, int]:
    """Read `--feature NAME=LEVEL` options; raises FormatError."""
    found: dict[str, int] = {}
    for text in texts:
        name, equals, level = text.partition("=")
        if not equals or not level.strip().isdecimal():
            raise FormatError(f"{text!r} is not NAME=LEVEL")
        if name.strip() in found:
            raise FormatError(f"feature {name.strip()} is given twice")
        found[name.strip()] = int(level)
    return found


def feature_levels(release: str | None, features: Mapping[str, int], *, dynamic: bool) -> dict[str, int]:
    """The levels that a cluster starts with, given a release and what is to differ from it; raises FormatError.

    A dynamic quorum (no controller.quorum.voters) has kraft.version 1, a static one 0.
    """
    if METADATA_VERSION in features:
        if release is not None:
            raise FormatError(f"give either --release-version or --feature {METADATA_VERSION}, not both")
        metadata_version = features[METADATA_VERSION]
        if metadata_version not in METADATA_LEVELS:
            raise FormatError(f"there is no {METADATA_VERSION} {metadata_version}")
    else:
        metadata_version = LATEST_METADATA if release is None else parse_release(release)
    unknown = sorted(features.keys() - FEATURES.keys() - {METADATA_VERSION})
    if unknown:
        raise FormatError(f"there is no feature {unknown[0]}: known are {', '.join(sorted(FEATURES))}")
    if features.get(KRAFT_VERSION, int(dynamic)) != int(dynamic):
        kind = "without controller.quorum.voters" if dynamic else "with controller.quorum.voters"
        raise FormatError(f"a quorum {kind} has {KRAFT_VERSION} {int(dynamic)}, not {features[KRAFT_VERSION]}")
    levels = {**default_levels(metadata_version), **features, METADATA_VERSION: metadata_version}
    levels.pop(KRAFT_VERSION, None)
    for name, level in levels.items():
        if name == METADATA_VERSION:
            continue
        if level > FEATURES[name].latest:
            raise FormatError(f"there is no {name} {level}: the latest is {FEATURES[name].latest}")
        if (why := unmet_need(name, level, levels)) is not None:
            raise FormatError(why)
    return levels


def records_of_levels(levels: Mapping[str, int]) -> list[FeatureLevelRecord]:
    """Feature levels as the bootstrap file keeps them: metadata.version first, and only what is not off."""
    names = [METADATA_VERSION, *sorted(levels.keys() - {METADATA_VERSION, KRAFT_VERSION})]
    return [FeatureLevelRecord(name=name, feature_level=levels[name]) for name in names if levels[name] > 0]


def check_dirs(
    disk: Disk,
    dirs: Sequence[str],
    metadata_dir: str,
    *,
    node_id: int,
    new_id: Callable[[], Uuid] = random_id,
) -> NodeDirs | None:
    """The formatted directories of a node, or None if none is formatted; raises FormatError if they do not agree."""
    everywhere = list(dict.fromkeys([*dirs, metadata_dir]))
    known = {path: _read(disk, path) for path in everywhere}
    formatted = {path: meta for path, meta in known.items() if meta is not None}
    if not formatted:
        return None
    if metadata_dir not in formatted:
        raise FormatError(f"{metadata_dir} is not formatted, but should hold the metadata log")
    cluster_id = formatted[metadata_dir].cluster_id
    for path, meta in known.items():
        if meta is None:
            raise FormatError(f"{path} is not formatted, while {metadata_dir} is")
        if meta.cluster_id != cluster_id:  # either of the two may be damaged
            raise FormatError(f"{path} belongs to cluster {meta.cluster_id}, and {metadata_dir} to {cluster_id}")
        _check_owner(path, meta, cluster_id, node_id)
        if path != metadata_dir and disk.exists(f"{path}/{METADATA_LOG}"):
            raise FormatError(f"{path} has a metadata log, but {metadata_dir} is configured to hold it")
    ids = {path: meta.directory_id or new_id() for path, meta in formatted.items()}
    if len(set(ids.values())) != len(ids):
        raise FormatError(f"two of {', '.join(ids)} have the same directory id: one is a copy of the other")
    for path, meta in formatted.items():
        if meta.directory_id is None:
            write_meta_properties(disk, path, replace(meta, directory_id=ids[path]))
    return NodeDirs(cluster_id, node_id, metadata_dir, ids)


def open_standalone_dirs(
    disk: Disk, dirs: Sequence[str], metadata_dir: str, *, node_id: int, now_ms: int, controller: Endpoint | None = None
) -> NodeDirs:
    """A standalone node's directories, formatted if they are empty; raises FormatError."""
    known = check_dirs(disk, dirs, metadata_dir, node_id=node_id)
    if known is not None:
        return known
    cluster_id = str(random_id())
    return format_dirs(
        disk,
        dirs,
        metadata_dir,
        cluster_id=cluster_id,
        node_id=node_id,
        now_ms=now_ms,
        controller=controller or CONTROLLER_ENDPOINT,
    )


def read_bootstrap(disk: Disk, metadata_dir: str) -> list[Any]:
    """The records that formatting left for the first leader; those of this release if there is no such file."""
    path = f"{metadata_dir}/{BOOTSTRAP_FILE}"
    if not disk.exists(path):
        return list(bootstrap_records())
    return read_snapshot(disk, path).records


def _format_one(
    disk: Disk, path: str, meta: MetaProperties, bootstrap: Sequence[Any], voters: tuple[Voter, ...], now_ms: int
) -> None:
    try:
        disk.mkdir(path)
        if voters:
            directory = f"{path}/{METADATA_LOG}"
            disk.mkdir(directory)
            control = ControlState(kraft_version=1, voters=voters)
            first = encode_snapshot((), epoch=0, log_timestamp=now_ms, now_ms=now_ms, control=control)
            store_snapshot(disk, directory, BOOTSTRAP_ID, first)
        values = [encode_record(record, write_version(record, LATEST_METADATA)) for record in bootstrap]
        data = encode_snapshot(values, epoch=0, log_timestamp=0, now_ms=now_ms)
        disk.replace_file(f"{path}/{BOOTSTRAP_FILE}", data)
        # Last of all: a directory with meta.properties is a formatted one.
        write_meta_properties(disk, path, meta)
    except OSError as error:
        raise FormatError(f"cannot format {path}: {error.strerror or error}") from error


def _read(disk: Disk, path: str) -> MetaProperties | None:
    try:
        return read_meta_properties(disk, path)
    except KafkaStorageError as error:
        raise FormatError(str(error)) from None
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}") from None


def _check_cluster_id(cluster_id: str) -> None:
    try:
        Uuid.parse(cluster_id)
    except ValueError:
        raise FormatError(f"cluster id {cluster_id!r} is not 22 characters of base64url") from None


def _check_owner(path: str, meta: MetaProperties, cluster_id: str, node_id: int) -> None:
    if meta.cluster_id != cluster_id:
        raise FormatError(f"{path} belongs to cluster {meta.cluster_id}, not to {cluster_id}")
    if meta.node_id != node_id:
        raise FormatError(f"{path} belongs to node {meta.node_id}, not to node {node_id}")


def _check_empty(disk: Disk, path: str) -> None:
    """Refuse a directory with anything in it that formatting did not put there."""
    try:
        if not disk.exists(path):
            return
        if not disk.is_dir(path):
            raise FormatError(f"{path} is not a directory")
        foreign = sorted(set(disk.listdir(path)) - _LEFT_BY_FORMAT)
        log = f"{path}/{METADATA_LOG}"
        if not foreign and disk.is_dir(log):
            foreign = sorted(name for name in disk.listdir(log) if not name.startswith(BOOTSTRAP_ID.file_name[:-11]))
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}") from None
    if foreign:
        raise FormatError(f"{path} is not empty and was not formatted: it has {foreign[0]}, but no meta.properties")

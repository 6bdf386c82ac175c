"""The kinds of groups that there are, and the codec of the topic that remembers them all.

A new kind of group is a package beside this file and a line in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kavka.coordinator.classic.kind import ClassicKind
from kavka.coordinator.consumer.kind import ConsumerKind
from kavka.coordinator.kind import GroupKind
from kavka.coordinator.offsets import records as offsets
from kavka.coordinator.record import RecordCodec
from kavka.coordinator.share.kind import ShareKind
from kavka.coordinator.state import ShardState
from kavka.coordinator.streams.kind import StreamsKind

KindClass = type[GroupKind[Any]]

KINDS: Final[tuple[KindClass, ...]] = (
    ClassicKind,
    ConsumerKind,
    ShareKind,
    StreamsKind,
)
"""A kind that deals with another comes after it."""


def codec_of(kinds: Iterable[KindClass] = KINDS) -> RecordCodec:
    """The codec of `__consumer_offsets`: the records of offsets, and of each kind of group."""
    return RecordCodec([*offsets.RECORDS, *(classes for kind in kinds for classes in kind.records)])


def state_of(kinds: Iterable[KindClass] = KINDS) -> ShardState:
    """What a shard remembers before it has replayed anything."""
    return ShardState({key: kind.replay for kind in kinds for key, _ in kind.records})

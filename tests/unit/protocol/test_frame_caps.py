"""Caps by API: what carries lists may be larger, and only Produce as large as the setting."""

from __future__ import annotations

from collections.abc import Iterator

from kavka.protocol.frame_caps import SMALL_FRAME_BYTES, WITHOUT_LISTS, FrameCaps
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schema import Array, Struct, WireType, fields_of

FEW = {
    "features", "listeners", "feature_updates", "topics", "offline_log_dirs", "log_dirs", "cordoned_log_dirs", "owners",
    "renewers", "states_filter", "types_filter", "state_filters", "producer_id_filters", "resource_types",
    "preferred_candidates", "preferred_successors", "leader_endpoints",
}  # fmt: skip
"""Lists with an item per node, listener, feature or word of a fixed set; the topics are the one of a quorum."""


def lists(kind: WireType, name: str = "") -> Iterator[str]:
    match kind:
        case Array(element):
            yield name
            yield from lists(element, name)
        case Struct(cls):
            for field in fields_of(cls):
                yield from lists(field.type, field.name)


def test_only_produce_is_as_large_as_the_setting() -> None:
    caps = FrameCaps(data=100 << 20, lists=8 << 20)
    assert caps.of(ApiKey.PRODUCE) == 100 << 20
    assert caps.of(ApiKey.OFFSET_COMMIT) == 8 << 20
    assert caps.of(ApiKey.HEARTBEAT) == SMALL_FRAME_BYTES
    assert caps.of(-1) == caps.of(999) == SMALL_FRAME_BYTES
    assert max(caps.of(key) for key in API if key != ApiKey.PRODUCE) == 8 << 20
    assert FrameCaps(data=1000).of(ApiKey.METADATA) == 1000


def test_what_has_long_lists_is_not_among_those_that_have_none() -> None:
    long = {(key.name, name) for key in WITHOUT_LISTS for name in lists(Struct(API[key].request())) if name not in FEW}
    assert not {pair for pair in long if pair[1] != "partitions"}

"""Caps by API: what carries lists may be larger, and only Produce as large as the setting."""

from __future__ import annotations

from collections.abc import Iterator

from kavka.protocol.frame_caps import SMALL_FRAME_BYTES, WITHOUT_LISTS, FrameCaps
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schema import Array, Struct, WireType, fields_of

QUORUM = {"topics", "topics.partitions"}
FEW: dict[ApiKey, set[str]] = {
    ApiKey.LIST_GROUPS: {"states_filter", "types_filter"},
    ApiKey.CREATE_DELEGATION_TOKEN: {"renewers"},
    ApiKey.DESCRIBE_DELEGATION_TOKEN: {"owners"},
    ApiKey.VOTE: QUORUM,
    ApiKey.BEGIN_QUORUM_EPOCH: QUORUM | {"leader_endpoints"},
    ApiKey.END_QUORUM_EPOCH: QUORUM
    | {"topics.partitions.preferred_successors", "topics.partitions.preferred_candidates", "leader_endpoints"},
    ApiKey.DESCRIBE_QUORUM: QUORUM,
    ApiKey.FETCH_SNAPSHOT: QUORUM,
    ApiKey.UPDATE_FEATURES: {"feature_updates"},
    ApiKey.BROKER_REGISTRATION: {"listeners", "features", "log_dirs"},
    ApiKey.BROKER_HEARTBEAT: {"offline_log_dirs", "cordoned_log_dirs"},
    ApiKey.LIST_TRANSACTIONS: {"state_filters", "producer_id_filters"},
    ApiKey.CONTROLLER_REGISTRATION: {"listeners", "features"},
    ApiKey.LIST_CONFIG_RESOURCES: {"resource_types"},
    ApiKey.ADD_RAFT_VOTER: {"listeners"},
    ApiKey.UPDATE_RAFT_VOTER: {"listeners"},
}
"""Lists with an item per node, listener, feature, log directory or word of a fixed set, and what an operator types in;
the topics are the one of a quorum."""


def lists(kind: WireType, path: str = "") -> Iterator[str]:
    match kind:
        case Array(element):
            yield path
            yield from lists(element, path)
        case Struct(cls):
            for field in fields_of(cls):
                yield from lists(field.type, f"{path}.{field.name}".strip("."))


def test_only_produce_is_as_large_as_the_setting() -> None:
    caps = FrameCaps(data=100 << 20, lists=8 << 20)
    assert caps.of(ApiKey.PRODUCE) == 100 << 20
    assert caps.of(ApiKey.OFFSET_COMMIT) == 8 << 20
    assert caps.of(ApiKey.HEARTBEAT) == SMALL_FRAME_BYTES
    assert caps.of(-1) == caps.of(999) == SMALL_FRAME_BYTES
    assert max(caps.of(key) for key in API if key != ApiKey.PRODUCE) == 8 << 20
    assert FrameCaps(data=1000).of(ApiKey.METADATA) == 1000


def test_only_long_lists_may_have_many_items() -> None:
    caps = FrameCaps()
    assert caps.items_of(ApiKey.OFFSET_COMMIT) == 65_536
    assert caps.items_of(ApiKey.BROKER_REGISTRATION) == 2_048


def test_what_has_long_lists_is_not_among_those_that_have_none() -> None:
    have = {key: set(lists(Struct(API[key].request()))) for key in WITHOUT_LISTS}
    assert {key: found for key, found in have.items() if found} == FEW

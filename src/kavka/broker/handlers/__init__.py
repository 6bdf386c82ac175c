"""The APIs this node serves, one module each; a test compares this list with the folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from kavka.model.settings import UNSTABLE_API_VERSIONS_ENABLE, Values
from kavka.model.settings.coordinators import TRANSACTION_TWO_PHASE_COMMIT_ENABLE
from kavka.protocol.registry import API, Api, ApiKey

HANDLERS: tuple[str, ...] = (
    "add_offsets_to_txn",
    "add_partitions_to_txn",
    "add_raft_voter",
    "allocate_producer_ids",
    "alter_client_quotas",
    "alter_configs",
    "alter_partition",
    "alter_partition_reassignments",
    "alter_replica_log_dirs",
    "alter_share_group_offsets",
    "alter_user_scram_credentials",
    "api_versions",
    "assign_replicas_to_dirs",
    "begin_quorum_epoch",
    "broker_heartbeat",
    "broker_registration",
    "consumer_group_describe",
    "consumer_group_heartbeat",
    "controller_registration",
    "create_acls",
    "create_delegation_token",
    "create_partitions",
    "create_topics",
    "delete_acls",
    "delete_groups",
    "delete_records",
    "delete_share_group_offsets",
    "delete_share_group_state",
    "delete_topics",
    "describe_acls",
    "describe_client_quotas",
    "describe_cluster",
    "describe_configs",
    "describe_delegation_token",
    "describe_groups",
    "describe_log_dirs",
    "describe_producers",
    "describe_quorum",
    "describe_share_group_offsets",
    "describe_topic_partitions",
    "describe_transactions",
    "describe_user_scram_credentials",
    "elect_leaders",
    "end_quorum_epoch",
    "end_txn",
    "envelope",
    "expire_delegation_token",
    "fetch_snapshot",
    "find_coordinator",
    "get_replica_log_info",
    "get_telemetry_subscriptions",
    "heartbeat",
    "incremental_alter_configs",
    "init_producer_id",
    "initialize_share_group_state",
    "join_group",
    "leave_group",
    "list_config_resources",
    "list_groups",
    "list_offsets",
    "list_partition_reassignments",
    "list_transactions",
    "metadata",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
    "offset_for_leader_epoch",
    "push_telemetry",
    "read_share_group_state",
    "read_share_group_state_summary",
    "registry_call",
    "remove_raft_voter",
    "renew_delegation_token",
    "sasl_authenticate",
    "sasl_handshake",
    "share_acknowledge",
    "share_fetch",
    "share_group_describe",
    "share_group_heartbeat",
    "streams_group_describe",
    "streams_group_heartbeat",
    "sync_group",
    "txn_offset_commit",
    "unregister_broker",
    "update_features",
    "update_raft_voter",
    "vote",
    "write_share_group_state",
    "write_txn_markers",
)

HOT: tuple[str, ...] = ("fetch", "produce")
"""Served straight from the frame by classes, see `dispatch`."""

TELEMETRY: frozenset[int] = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
"""Offered only where there is a page that shows what clients push."""

AT_CONTROLLERS: Mapping[str, str] = {"fetch": "raft_fetch"}
"""The modules of APIs that mean something else on a controller listener than on a broker's."""

IMPLEMENTED_FEATURES: frozenset[str] = frozenset(
    {"eligible.leader.replicas.version", "group.version", "share.version", "streams.version", "transaction.version"}
)
"""The cluster features, beside metadata.version and kraft.version, whose behaviour and APIs this node has."""


def latest_version(api: Api, values: Values | None) -> int:
    """The highest version of an API that is offered: one that is not stable yet only where the settings ask for it."""
    if values is None or not api.latest_version_unstable:
        return api.latest_stable_version
    two_phases = api.key == ApiKey.INIT_PRODUCER_ID and values[TRANSACTION_TWO_PHASE_COMMIT_ENABLE]
    return api.max_version if two_phases or values[UNSTABLE_API_VERSIONS_ENABLE] else api.latest_stable_version


def load(stem: str) -> Callable[..., Any]:
    """The handler function of an API, imported when first needed: start-up pays for none of them."""
    function: Callable[..., Any] = getattr(import_module(f"{__name__}.{stem}"), stem)
    return function


def modules(kind: str, stems: Iterable[str] = HANDLERS) -> dict[int, str]:
    """The module that serves each API on one kind of listener, by the API's key."""
    chosen = {stem: stem for stem in stems}
    if kind == "controller":
        chosen |= AT_CONTROLLERS
    return {api.key: chosen[api.stem] for api in API.values() if api.stem in chosen and kind in api.listeners}

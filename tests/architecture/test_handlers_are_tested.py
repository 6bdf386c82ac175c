"""Every handler has a test file of its own stem, or this table says which test asks it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
HANDLERS = TESTS.parent / "src" / "kavka" / "broker" / "handlers"
OWN_TESTS = TESTS / "unit" / "broker" / "handlers"
NO_HANDLERS = {"__init__", "marks"}

_TRANSACTIONS = "unit/broker/handlers/test_transaction_apis.py"
_REGISTRATION = "unit/broker/handlers/test_broker_registration.py"
_ACLS = "unit/broker/handlers/test_describe_acls.py"
_SCRAM = "unit/broker/handlers/test_alter_user_scram_credentials.py"
_TOKENS = "unit/broker/handlers/test_create_delegation_token.py::test_a_token_is_handed_out_renewed_and_ended"
_GROUPS = "component/test_client_groups.py"
_QUORUM = "component/test_quorum.py"
_STRANGERS = "component/test_quorum_strangers.py"
_SHARE_GROUPS = "component/test_share_groups.py"
_STREAMS = "component/test_streams_groups.py"
_SHARE_STATE = "component/test_share_state.py::test_a_state_is_kept_over_a_restart_and_its_log_is_pruned"

_QUOTAS = "unit/broker/handlers/test_describe_client_quotas.py"

TESTED_IN = {
    "add_offsets_to_txn": f"{_TRANSACTIONS}::test_a_groups_offsets_become_part_of_a_transaction",
    "add_partitions_to_txn": f"{_TRANSACTIONS}::test_partitions_become_part_of_a_transaction",
    "add_raft_voter": f"{_QUORUM}::test_voters_are_added_and_removed_one_by_one",
    "allocate_producer_ids": f"{_REGISTRATION}::test_a_broker_gets_blocks_of_producer_ids",
    "alter_share_group_offsets": f"{_SHARE_GROUPS}::test_a_group_is_described_listed_moved_and_deleted",
    "alter_client_quotas": f"{_QUOTAS}::test_what_cannot_be_limited_so_is_refused_alone",
    "begin_quorum_epoch": f"{_STRANGERS}::test_a_stranger_who_talks_nonsense_changes_nothing",
    "broker_heartbeat": f"{_REGISTRATION}::test_a_broker_registers_and_comes_into_service",
    "consumer_group_describe": f"{_GROUPS}::test_groups_are_listed_described_reset_and_deleted",
    "consumer_group_heartbeat": f"{_GROUPS}::test_partitions_move_to_a_second_member_and_back",
    "controller_registration": f"{_REGISTRATION}::test_a_controller_registers",
    "create_acls": f"{_ACLS}::test_rules_are_created_shown_and_deleted",
    "delete_acls": f"{_ACLS}::test_rules_are_created_shown_and_deleted",
    "delete_groups": f"{_GROUPS}::test_groups_are_listed_described_reset_and_deleted",
    "delete_share_group_offsets": f"{_SHARE_GROUPS}::test_a_group_is_described_listed_moved_and_deleted",
    "delete_share_group_state": _SHARE_STATE,
    "describe_delegation_token": _TOKENS,
    "describe_groups": "cluster/test_views.py::test_the_coordinator_of_a_group_is_the_same_wherever_one_asks",
    "describe_share_group_offsets": f"{_SHARE_GROUPS}::test_a_group_is_described_listed_moved_and_deleted",
    "describe_transactions": f"{_TRANSACTIONS}::test_a_transaction_is_shown_with_its_partitions",
    "describe_user_scram_credentials": f"{_SCRAM}::test_credentials_are_set_shown_and_removed",
    "end_quorum_epoch": f"{_STRANGERS}::test_a_stranger_who_talks_nonsense_changes_nothing",
    "end_txn": f"{_TRANSACTIONS}::test_what_end_txn_refuses",
    "envelope": "unit/broker/test_forwarding.py::test_a_bad_envelope_is_refused_with_kafkas_codes",
    "expire_delegation_token": _TOKENS,
    "fetch": "component/test_fetch_sessions.py::test_a_session_is_told_of_everything_once_and_then_of_news_only",
    "fetch_snapshot": f"{_STRANGERS}::test_a_snapshot_is_given_in_windows",
    "heartbeat": f"{_GROUPS}::test_partitions_move_to_a_second_member_and_back",
    "initialize_share_group_state": _SHARE_STATE,
    "join_group": f"{_GROUPS}::test_partitions_move_to_a_second_member_and_back",
    "leave_group": f"{_GROUPS}::test_partitions_move_to_a_second_member_and_back",
    "list_groups": f"{_GROUPS}::test_groups_are_listed_described_reset_and_deleted",
    "list_partition_reassignments": (
        "unit/broker/handlers/test_alter_partition_reassignments.py::test_some_partitions_are_listed"
    ),
    "list_transactions": f"{_TRANSACTIONS}::test_transactions_are_found_by_state_producer_age_and_pattern",
    "offset_commit": f"{_GROUPS}::test_without_auto_commit_only_the_user_commits",
    "offset_delete": f"{_GROUPS}::test_groups_are_listed_described_reset_and_deleted",
    "offset_fetch": f"{_GROUPS}::test_a_lone_member_reads_everything_and_the_next_goes_on_behind_it",
    "raft_fetch": f"{_STRANGERS}::test_a_node_of_another_cluster_is_refused_everywhere",
    "read_share_group_state": _SHARE_STATE,
    "read_share_group_state_summary": _SHARE_STATE,
    "remove_raft_voter": f"{_QUORUM}::test_voters_are_added_and_removed_one_by_one",
    "renew_delegation_token": _TOKENS,
    "share_acknowledge": f"{_SHARE_GROUPS}::test_sessions_and_acknowledgements_that_are_refused",
    "share_fetch": f"{_SHARE_GROUPS}::test_sessions_and_acknowledgements_that_are_refused",
    "share_group_describe": f"{_SHARE_GROUPS}::test_a_group_is_described_listed_moved_and_deleted",
    "share_group_heartbeat": f"{_SHARE_GROUPS}::test_records_are_delivered_once_and_accepted_for_good",
    "streams_group_describe": f"{_STREAMS}::test_internal_topics_are_created_and_tasks_assigned",
    "streams_group_heartbeat": f"{_STREAMS}::test_internal_topics_are_created_and_tasks_assigned",
    "sync_group": f"{_GROUPS}::test_partitions_move_to_a_second_member_and_back",
    "txn_offset_commit": f"{_TRANSACTIONS}::test_offsets_are_verified_and_committed_for_their_producer",
    "unregister_broker": f"{_REGISTRATION}::test_a_broker_is_forgotten",
    "update_raft_voter": f"{_QUORUM}::test_a_voter_that_moved_tells_the_leader_where",
    "vote": f"{_QUORUM}::test_a_wiped_voter_does_not_vote_until_it_has_joined_anew",
    "write_share_group_state": _SHARE_STATE,
    "write_txn_markers": f"{_TRANSACTIONS}::test_each_marker_is_written_to_each_partition",
}


def test_every_handler_has_a_test_of_its_name_or_a_row_in_the_table() -> None:
    stems = {path.stem for path in HANDLERS.glob("*.py")} - NO_HANDLERS
    without = {stem for stem in stems if not (OWN_TESTS / f"test_{stem}.py").exists()}
    assert without == set(TESTED_IN)


@pytest.mark.parametrize("stem", TESTED_IN)
def test_the_test_that_the_table_names_is_there(stem: str) -> None:
    file, _, name = TESTED_IN[stem].partition("::")
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}

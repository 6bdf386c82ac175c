"""Published faults of Kafka and what it is made of that concern a broker, and the test that each would fail here.

These concern no broker: CVE-2023-25194 (Connect) and CVE-2026-35554 (the producer).
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]

_SCRAM = "unit/security/sasl/test_scram.py"
_JWT = "unit/security/test_jwt.py"
_OAUTH = "unit/broker/sasl/test_oauthbearer.py"
_HOSTILE = "hostile/test_advisories.py"
_CODECS = "unit/wire/test_compression.py"
_RIGHTS = "component/test_rights.py::test_exactly_what_is_missing_is_refused"

ADVISORIES = {
    # a client names another user than the one that it proved to be
    "CVE-2017-12610": [
        f"{_SCRAM}::test_nobody_speaks_for_another",
        "unit/security/test_oauthbearer.py::test_nobody_is_taken_for_another",
        "unit/security/test_gssapi.py::test_whom_a_client_asks_to_be_taken_for_does_not_matter",
    ],
    # a client fetches as if it were a follower: the case fetch-follower of the table
    "CVE-2018-1288": [_RIGHTS],
    # records of a transaction whose id the client may not use: the case produce-transactional of the table
    "CVE-2018-17196": [_RIGHTS],
    # how long a comparison takes tells whether a user is there
    "CVE-2021-38153": [f"{_HOSTILE}::test_cve_2021_38153_strangers_take_the_same_comparison"],
    # who is not in makes a node take memory
    "CVE-2022-34917": [
        f"{_HOSTILE}::test_cve_2022_34917_strangers_announce_no_large_requests",
        "hostile/test_flood.py::test_those_who_are_in_are_served_and_memory_stays_bounded",
        "unit/net/test_tls.py::test_who_changes_keys_over_and_over_takes_neither_memory_nor_the_loop",
    ],
    # compressed records that claim to be large
    "CVE-2023-34455": [f"{_CODECS}::test_a_snappy_chunk_that_claims_another_size_takes_no_memory"],
    "CVE-2023-43642": [f"{_CODECS}::test_a_snappy_chunk_that_claims_another_size_takes_no_memory"],
    # one rule is removed, and others of the same resource are gone too
    "CVE-2024-27309": ["unit/security/test_acl.py::test_rules_that_end_leave_no_trace"],
    # a setting names a file whose contents become its value
    "CVE-2024-31141": [f"{_HOSTILE}::test_cve_2024_31141_no_value_is_taken_from_a_file"],
    # a nonce that is not the one of the exchange
    "CVE-2024-56128": [f"{_SCRAM}::test_a_nonce_that_is_not_the_one_of_this_exchange_is_refused"],
    # a configuration makes a client, or a node, read files and ask servers
    "CVE-2025-27817": [
        f"{_OAUTH}::test_what_cannot_be_honoured_refuses_to_start",
        "unit/client/test_oauth.py::test_a_configuration_cannot_send_a_client_where_its_program_does_not_allow",
        "unit/client/test_http.py::test_anything_but_ok_is_an_error_and_redirects_are_not_followed",
    ],
    # compressed records that show what was in memory before
    "CVE-2025-12183": [f"{_CODECS}::test_an_lz4_match_that_points_nowhere_shows_nothing_of_the_memory"],
    "CVE-2025-66566": [f"{_CODECS}::test_an_lz4_match_that_points_nowhere_shows_nothing_of_the_memory"],
    # login modules that look things up elsewhere
    "CVE-2025-27818": ["component/test_logins.py::test_no_login_module_but_those_of_the_mechanism_is_taken"],
    "CVE-2025-27819": ["component/test_logins.py::test_no_login_module_but_those_of_the_mechanism_is_taken"],
    # bearer tokens that are believed without keys
    "CVE-2026-33557": [
        f"{_OAUTH}::test_what_cannot_be_honoured_refuses_to_start",
        f"{_JWT}::test_no_algorithm_and_no_signature_is_no_way_in",
        f"{_JWT}::test_a_public_key_is_no_shared_secret",
        f"{_JWT}::test_claims_that_break_a_rule_are_refused",
    ],
    # secrets in logs
    "CVE-2026-33558": ["component/test_logins.py::test_no_secret_is_in_any_log"],
}


@pytest.mark.parametrize("advisory", ADVISORIES)
def test_what_was_published_has_a_test(advisory: str) -> None:
    for place in ADVISORIES[advisory]:
        file, _, name = place.partition("::")
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, place

"""Published faults of Kafka in logins and rights, and the test that each of them would fail here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]

_SCRAM = "unit/security/sasl/test_scram.py"
_JWT = "unit/security/test_jwt.py"
_OAUTH = "unit/broker/sasl/test_oauthbearer.py"
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
    # one rule is removed, and others of the same resource are gone too
    "CVE-2024-27309": ["unit/security/test_acl.py::test_rules_that_end_leave_no_trace"],
    # a nonce that is not the one of the exchange
    "CVE-2024-56128": [f"{_SCRAM}::test_a_nonce_that_is_not_the_one_of_this_exchange_is_refused"],
    # a configuration makes a client, or a node, read files and ask servers
    "CVE-2025-27817": [
        f"{_OAUTH}::test_what_cannot_be_honoured_refuses_to_start",
        "unit/client/test_oauth.py::test_a_configuration_cannot_send_a_client_where_its_program_does_not_allow",
        "unit/client/test_http.py::test_anything_but_ok_is_an_error_and_redirects_are_not_followed",
    ],
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

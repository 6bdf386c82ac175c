"""The same requests to Apache Kafka and to Kavka, both fresh: the answers are equal, or the difference is accepted."""

from __future__ import annotations

from fnmatch import fnmatch

import pytest
from jvm.differential.accepted import ACCEPTED, Accepted
from jvm.differential.areas.order import CASES
from jvm.differential.case import Case
from jvm.differential.session import Told
from jvm.differential.shape import differences
from jvm.nodes import KAVKA, target


def accepted(case: Case, path: str) -> Accepted | None:
    """The entry of the table that covers a difference."""
    return next((row for row in ACCEPTED if fnmatch(case.name, row.cases) and fnmatch(path, row.path)), None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_answers_are_equal(kafkas: Told, ours: Told, case: Case) -> None:
    found = differences(kafkas.trees[case.name], ours.trees[case.name])
    left = {path: pair for path, pair in found.items() if target() != KAVKA or accepted(case, path) is None}
    told = "\n".join(f"  {path}: Kafka {theirs!r}, ours {mine!r}" for path, (theirs, mine) in left.items())
    assert not left, f"{case.name} (version {case.version}):\n{told}"


def test_our_schemas_read_and_write_what_kafka_sends(kafkas: Told) -> None:
    read = {name: outcome for name, outcome in kafkas.outcomes.items() if outcome.message is not None}
    assert len(read) > 400
    assert {name: outcome.rest for name, outcome in read.items() if outcome.rest} == {}
    assert [name for name, outcome in read.items() if outcome.encoded_again() != outcome.body] == []


def test_our_schemas_read_what_we_send(ours: Told) -> None:
    assert {name: outcome.rest for name, outcome in ours.outcomes.items() if outcome.rest} == {}


def test_every_accepted_difference_is_there(kafkas: Told, ours: Told) -> None:
    if target() != KAVKA:
        pytest.skip("the table is about Kavka")
    met = {
        row
        for case in CASES
        for path in differences(kafkas.trees[case.name], ours.trees[case.name])
        if (row := accepted(case, path)) is not None
    }
    assert [row for row in ACCEPTED if row not in met] == []

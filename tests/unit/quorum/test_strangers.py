"""Nodes of another cluster, as those who refuse them and as those who are refused see them."""

import pytest

from kavka.model.errors import InconsistentClusterId
from kavka.quorum.strangers import MOST_TOLD, Refusals, Strangers


def test_a_stranger_is_refused_each_time_and_named_once(caplog):
    strangers = Strangers("ours")
    strangers.check(None, "1.2.3.4")
    strangers.check("ours", "1.2.3.4")
    assert not caplog.records
    for _ in range(3):
        with pytest.raises(InconsistentClusterId):
            strangers.check("theirs", "1.2.3.4")
    (line,) = [record.getMessage() for record in caplog.records]
    assert all(word in line for word in ("INCONSISTENT_CLUSTER_ID", "theirs", "1.2.3.4", "ours"))


def test_who_makes_up_clusters_does_not_fill_the_log(caplog):
    strangers = Strangers("ours")
    for number in range(2 * MOST_TOLD):
        with pytest.raises(InconsistentClusterId):
            strangers.check(f"theirs {number}", "1.2.3.4")
    assert len(caplog.records) == MOST_TOLD


def test_who_is_refused_says_so_once_and_asks_ever_more_seldom(caplog):
    refusals = Refusals("ours")
    assert refusals.pause(2, 10.0) == 0.0
    pauses = []
    for _ in range(6):
        refusals.refused(2, 10.0)
        pauses.append(refusals.pause(2, 10.0))
    assert pauses == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert refusals.pause(2, 14.0) == 1.0
    assert refusals.pause(2, 20.0) == 0.0
    refusals.refused(3, 10.0)
    (line,) = [record.getMessage() for record in caplog.records]
    assert all(word in line for word in ("INCONSISTENT_CLUSTER_ID", "node 2", "ours"))


def test_a_node_that_was_mended_is_asked_at_once_again():
    refusals = Refusals("ours")
    refusals.refused(2, 10.0)
    refusals.accepted(2)
    assert refusals.pause(2, 10.0) == 0.0
    refusals.accepted(3)

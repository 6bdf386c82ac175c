"""kafka-transactions: what it prints against the node under test."""

from __future__ import annotations

from jvm.tools import Tools, eventually


def test_the_producers_of_a_partition_are_shown(tools: Tools, made_topic: str) -> None:
    produced = tools.java.run("kavka.compat.Produce", [tools.node.bootstrap, made_topic, "0", "3"]).must_succeed()
    assert produced.lines[-1] == "3 acknowledged, offsets 0 to 2"
    done = tools.transactions("describe-producers", "--topic", made_topic, "--partition", "0").must_succeed()
    heading, row = (line.split() for line in done.lines)
    assert heading == [
        "ProducerId",
        "ProducerEpoch",
        "LatestCoordinatorEpoch",
        "LastSequence",
        "LastTimestamp",
        "CurrentTransactionStartOffset",
    ]
    assert row[1:4] == ["0", "-1", "2"]
    assert row[4:] == ["1700000002000", "None"]


def test_a_partition_without_producers_shows_none(tools: Tools, made_topic: str) -> None:
    done = tools.transactions("describe-producers", "--topic", made_topic, "--partition", "1").must_succeed()
    assert len(done.lines) == 1


def test_a_finished_transaction_is_listed_and_described(tools: Tools, made_topic: str) -> None:
    tools.java.run("kavka.compat.Transact", [tools.node.bootstrap, made_topic, "commit"]).must_succeed()
    heading = tools.transactions("list").must_succeed().lines[0]
    assert heading.split() == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]

    def state() -> list[str]:
        rows = [line.split() for line in tools.transactions("list").must_succeed().lines]
        return [row[3] for row in rows if row[0] == made_topic]

    eventually(state, ["CompleteCommit"])
    described = tools.transactions("describe", "--transactional-id", made_topic).must_succeed().lines
    assert "CompleteCommit" in described[1]


def test_an_unknown_transactional_id_fails(tools: Tools) -> None:
    done = tools.transactions("describe", "--transactional-id", "nobody").must_fail()
    assert "could not be found" in done.err


def test_no_transaction_hangs(tools: Tools) -> None:
    assert len(tools.transactions("find-hanging", "--broker-id", "1").must_succeed().lines) == 1

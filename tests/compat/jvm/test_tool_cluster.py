"""kafka-cluster, kafka-features, kafka-metadata-quorum and kafka-broker-api-versions against the node under test."""

from __future__ import annotations

import re

import pytest
from jvm.nodes import Node
from jvm.tools import Tools

FEATURE = re.compile(
    r"Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)"
    r"\s+FinalizedVersionLevel: (\S+)\s+Epoch: (\d+)"
)
FRESH_4_3 = {
    "eligible.leader.replicas.version": ("0", "1", "1"),
    "group.version": ("0", "1", "1"),
    "kraft.version": ("0", "1", "1"),
    "metadata.version": ("3.3-IV3", "4.3-IV0", "4.3-IV0"),
    "share.version": ("0", "1", "1"),
    "streams.version": ("0", "1", "1"),
    "transaction.version": ("0", "2", "2"),
}
QUORUM_LINES = [
    r"ClusterId: +[\w-]{22}",
    r"LeaderId: +1",
    r"LeaderEpoch: +\d+",
    r"HighWatermark: +\d+",
    r"MaxFollowerLag: +0",
    r"MaxFollowerLagTimeMs: +0",
    r'CurrentVoters: +\[\{"id": 1, "directoryId": "[\w-]{22}", "endpoints": \["CONTROLLER://[\w.]+:\d+"\]\}\]',
    r"CurrentObservers: +\[\]",
]
API_LINE = re.compile(r"\t(\w+)\((\d+)\): (?:(\d+)(?: to (\d+))? \[usable: \d+\]|UNSUPPORTED),?")
OF_OURS_ALONE = re.compile(r"\tUNKNOWN\((93|10000)\): .*")
"""GetReplicaLogInfo and RegistryCall, which Kafka 4.3 does not know."""


def features(tools: Tools) -> dict[str, tuple[str, ...]]:
    """Name to lowest and highest supported and finalized level."""
    rows = [FEATURE.fullmatch(line) for line in tools.features("describe").must_succeed().lines]
    assert all(rows)
    return {row[1]: (row[2], row[3], row[4]) for row in rows if row}


def test_cluster_id_is_printed(tools: Tools) -> None:
    (line,) = tools.cluster("cluster-id").must_succeed().lines
    assert re.fullmatch(r"Cluster ID: [\w-]{22}", line)


def test_list_endpoints_names_the_broker(tools: Tools, node: Node) -> None:
    heading, row = tools.cluster("list-endpoints").must_succeed().lines
    assert heading.split() == ["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"]
    assert row.split() == ["1", node.address[0], str(node.address[1]), "null", "unfenced", "broker"]


def test_list_endpoints_with_fenced_brokers(tools: Tools) -> None:
    assert len(tools.cluster("list-endpoints", "--include-fenced-brokers").must_succeed().lines) == 2


def test_unregister_an_unknown_broker_fails(tools: Tools) -> None:
    assert "BrokerIdNotRegisteredException" in tools.cluster("unregister", "--id", "9").must_fail().err


def test_features_of_a_fresh_cluster(tools: Tools) -> None:
    assert features(tools) == FRESH_4_3


def test_a_feature_is_lowered_and_raised(tools: Tools) -> None:
    lowered = tools.features("downgrade", "--feature", "transaction.version=1").must_succeed()
    assert lowered.lines == ["transaction.version was downgraded to 1."]
    assert features(tools)["transaction.version"] == ("0", "2", "1")
    raised = tools.features("upgrade", "--feature", "transaction.version=2").must_succeed()
    assert raised.lines == ["transaction.version was upgraded to 2."]
    assert features(tools)["transaction.version"] == ("0", "2", "2")


def test_a_dry_run_changes_no_feature(tools: Tools) -> None:
    done = tools.features("downgrade", "--feature", "transaction.version=1", "--dry-run").must_succeed()
    assert done.lines == ["transaction.version can be downgraded to 1."]
    assert features(tools)["transaction.version"] == ("0", "2", "2")


@pytest.mark.parametrize(
    "arguments",
    [
        ["upgrade", "--feature", "transaction.version=9"],
        ["downgrade", "--feature", "metadata.version=1"],
        ["disable", "--feature", "nope"],
    ],
    ids=" ".join,
)
def test_an_impossible_feature_level_is_refused(tools: Tools, arguments: list[str]) -> None:
    before = features(tools)
    done = tools.features(*arguments).must_fail()
    assert "1 out of 1 operation(s) failed." in done.err
    assert features(tools) == before


def test_a_feature_is_not_lowered_by_an_upgrade(tools: Tools) -> None:
    done = tools.features("upgrade", "--feature", "transaction.version=1").must_fail()
    assert "1 out of 1 operation(s) failed." in done.err


def test_all_features_of_a_release_at_once(tools: Tools) -> None:
    done = tools.features("upgrade", "--release-version", "4.3").must_succeed()
    assert "metadata.version was upgraded to 30." in done.lines


def test_the_quorums_status(tools: Tools) -> None:
    lines = tools.metadata_quorum("describe", "--status").must_succeed().lines
    assert len(lines) == len(QUORUM_LINES)
    for line, pattern in zip(lines, QUORUM_LINES, strict=True):
        assert re.fullmatch(pattern, line), line


def test_the_quorums_replication(tools: Tools) -> None:
    heading, row = tools.metadata_quorum("describe", "--replication").must_succeed().lines
    columns = ["NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"]
    assert heading.split() == columns
    cells = dict(zip(columns, row.split(), strict=True))
    assert (cells["NodeId"], cells["Lag"], cells["Status"]) == ("1", "0", "Leader")
    assert int(cells["LogEndOffset"]) > 0
    assert int(cells["LastCaughtUpTimestamp"]) > 0


def test_the_quorums_replication_in_words(tools: Tools) -> None:
    done = tools.metadata_quorum("describe", "--replication", "--human-readable").must_succeed()
    assert re.search(r"\d+ ms ago", done.lines[1])


def test_every_advertised_version_is_usable(tools: Tools, node: Node) -> None:
    lines = tools.broker_api_versions().must_succeed().out.splitlines()
    assert lines[0] == f"{node.bootstrap} (id: 1 rack: null isFenced: false) -> ("
    apis = [line for line in lines[1:] if line not in (")", "")]
    assert [line for line in apis if not API_LINE.fullmatch(line) and not OF_OURS_ALONE.fullmatch(line)] == []

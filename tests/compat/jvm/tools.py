"""Kafka's command-line tools by the name of their scripts, each run against one node."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from jvm.java_tools import DEFAULT_TIMEOUT_S, Java, Outcome
from jvm.nodes import Node

TOOLS = "org.apache.kafka.tools."
T = TypeVar("T")


def eventually(look: Callable[[], T], wanted: T, within_s: float = 10.0) -> None:
    """Assert that looking soon shows what is wanted: a broker applies some changes after it acknowledged them."""
    deadline = time.monotonic() + within_s
    while (seen := look()) != wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    assert seen == wanted


@dataclass(frozen=True)
class Tools:
    """kafka-topics.sh is tools.topics(...), and so on; the bootstrap address is given by us."""

    java: Java
    node: Node

    def topics(self, *arguments: str) -> Outcome:
        """kafka-topics"""
        return self._run("TopicCommand", *arguments)

    def configs(self, *arguments: str) -> Outcome:
        """kafka-configs"""
        return self.java.run("kafka.admin.ConfigCommand", ["--bootstrap-server", self.node.bootstrap, *arguments])

    def console_producer(self, *arguments: str, stdin: bytes = b"") -> Outcome:
        """kafka-console-producer"""
        return self._run("ConsoleProducer", *arguments, stdin=stdin)

    def console_consumer(self, *arguments: str, timeout_ms: int = 20_000) -> Outcome:
        """kafka-console-consumer, which gives up when no record came for timeout_ms"""
        return self._run("consumer.ConsoleConsumer", "--timeout-ms", str(timeout_ms), *arguments)

    def consumer_groups(self, *arguments: str) -> Outcome:
        """kafka-consumer-groups"""
        return self._run("consumer.group.ConsumerGroupCommand", *arguments)

    def groups(self, *arguments: str) -> Outcome:
        """kafka-groups"""
        return self._run("GroupsCommand", *arguments)

    def share_groups(self, *arguments: str) -> Outcome:
        """kafka-share-groups"""
        return self._run("consumer.group.ShareGroupCommand", *arguments)

    def console_share_consumer(self, *arguments: str, timeout_ms: int = 15_000) -> Outcome:
        """kafka-console-share-consumer, which gives up when no record came for timeout_ms"""
        return self._run("consumer.ConsoleShareConsumer", "--timeout-ms", str(timeout_ms), *arguments)

    def verifiable_share_consumer(self, *arguments: str) -> Outcome:
        """kafka-verifiable-share-consumer: its closing line comes from a shutdown hook"""
        return self.java.run_alone(
            TOOLS + "VerifiableShareConsumer", ["--bootstrap-server", self.node.bootstrap, *arguments]
        )

    def share_consumer_perf_test(self, *arguments: str) -> Outcome:
        """kafka-share-consumer-perf-test"""
        return self._run("ShareConsumerPerformance", *arguments)

    def get_offsets(self, *arguments: str) -> Outcome:
        """kafka-get-offsets"""
        return self._run("GetOffsetShell", *arguments)

    def delete_records(self, *arguments: str) -> Outcome:
        """kafka-delete-records"""
        return self._run("DeleteRecordsCommand", *arguments)

    def log_dirs(self, *arguments: str) -> Outcome:
        """kafka-log-dirs"""
        return self._run("LogDirsCommand", *arguments)

    def leader_election(self, *arguments: str) -> Outcome:
        """kafka-leader-election"""
        return self._run("LeaderElectionCommand", *arguments)

    def reassign_partitions(self, *arguments: str) -> Outcome:
        """kafka-reassign-partitions"""
        return self._run("reassign.ReassignPartitionsCommand", *arguments)

    def cluster(self, command: str, *arguments: str) -> Outcome:
        """kafka-cluster"""
        return self.java.run(TOOLS + "ClusterTool", [command, "--bootstrap-server", self.node.bootstrap, *arguments])

    def features(self, *arguments: str) -> Outcome:
        """kafka-features"""
        return self._run("FeatureCommand", *arguments)

    def metadata_quorum(self, *arguments: str) -> Outcome:
        """kafka-metadata-quorum"""
        return self._run("MetadataQuorumCommand", *arguments)

    def transactions(self, *arguments: str) -> Outcome:
        """kafka-transactions"""
        return self._run("TransactionsCommand", *arguments)

    def client_metrics(self, *arguments: str) -> Outcome:
        """kafka-client-metrics"""
        return self._run("ClientMetricsCommand", *arguments)

    def delegation_tokens(self, *arguments: str) -> Outcome:
        """kafka-delegation-tokens"""
        return self._run("DelegationTokenCommand", *arguments)

    def acls(self, *arguments: str) -> Outcome:
        """kafka-acls"""
        return self._run("AclCommand", *arguments)

    def broker_api_versions(self, *arguments: str) -> Outcome:
        """kafka-broker-api-versions"""
        return self._run("BrokerApiVersionsCommand", *arguments)

    def verifiable_producer(self, *arguments: str) -> Outcome:
        """kafka-verifiable-producer: its closing line comes from a shutdown hook"""
        return self.java.run_alone(
            TOOLS + "VerifiableProducer", ["--bootstrap-server", self.node.bootstrap, *arguments]
        )

    def verifiable_consumer(self, *arguments: str) -> Outcome:
        """kafka-verifiable-consumer: its closing line comes from a shutdown hook"""
        return self.java.run_alone(
            TOOLS + "VerifiableConsumer", ["--bootstrap-server", self.node.bootstrap, *arguments]
        )

    def producer_perf_test(self, *arguments: str) -> Outcome:
        """kafka-producer-perf-test"""
        return self._run("ProducerPerformance", *arguments)

    def consumer_perf_test(self, *arguments: str) -> Outcome:
        """kafka-consumer-perf-test"""
        return self._run("ConsumerPerformance", *arguments)

    def _run(self, tool: str, *arguments: str, stdin: bytes = b"", timeout: float = DEFAULT_TIMEOUT_S) -> Outcome:
        return self.java.run(TOOLS + tool, ["--bootstrap-server", self.node.bootstrap, *arguments], stdin, timeout)


def dump_log(java: Java, *arguments: str) -> Outcome:
    """kafka-dump-log: reads files, needs no node"""
    return java.run(TOOLS + "DumpLogSegments", list(arguments))

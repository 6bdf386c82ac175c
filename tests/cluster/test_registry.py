"""The registry of three nodes: any of them answers, and nothing is lost with the one that decides."""

from __future__ import annotations

import json
import warnings

from confluent_kafka.admin import AdminClient

from kavka.testing import Cluster

with warnings.catch_warnings():  # its HTTP library says that it will have another name
    warnings.simplefilter("ignore")
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient


def schema(name: str) -> Schema:
    return Schema(json.dumps({"type": "record", "name": name, "fields": []}), "AVRO")


def test_any_node_answers_and_the_leader_may_die() -> None:
    with Cluster(nodes=3, config={"kavka.registry.listener": "127.0.0.1:0"}) as cluster:
        urls = dict(zip(cluster.nodes, cluster.registry.split(","), strict=True))
        for number, url in enumerate(urls.values(), start=1):
            with SchemaRegistryClient({"url": url}) as client:
                assert client.register_schema(f"s{number}", schema(f"R{number}")) == number
                assert client.get_subjects() == [f"s{each}" for each in range(1, number + 1)]
        leader = (
            AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics().topics["_schemas"].partitions[0].leader
        )
        cluster.kill(leader)
        for node in set(urls) - {leader}:
            with SchemaRegistryClient({"url": urls[node]}) as client:
                assert client.get_subjects()[:3] == ["s1", "s2", "s3"]
                assert client.register_schema("s9", schema("R9")) == 4

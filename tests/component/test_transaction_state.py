"""What the topic of transactions remembers, with records that nobody knows."""

from __future__ import annotations

import asyncio
from urllib.request import urlopen

import pytest

from kavka.client.connector import Connector
from kavka.client.dial import TcpDial
from kavka.coordinator.txn.codec import CODEC
from kavka.coordinator.txn.state import Transaction, entry
from kavka.protocol.schema import replace
from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kavka.protocol.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kavka.records.builder import BatchBuilder
from kavka.testing import Cluster

CONFIG = {"transaction.state.log.num.partitions": "2", "kavka.metrics.listener": "127.0.0.1:0"}
IDS = [f"t{number}" for number in range(20)]


@pytest.fixture
def node():
    with Cluster(config=CONFIG) as cluster:
        yield cluster


async def ask(bootstrap, request, response, version, client_id="test"):
    host, _, port = bootstrap.rpartition(":")
    connection = await Connector(TcpDial()).connect(host, int(port), client_id=client_id)
    try:
        return await connection.request(request, response, version=version)
    finally:
        connection.close()


async def codes(bootstrap):
    """The error codes of all ids as they get a producer."""
    found = await ask(bootstrap, FindCoordinatorRequest(coordinator_keys=IDS, key_type=1), FindCoordinatorResponse, 6)
    assert {row.error_code for row in found.coordinators} == {0}
    asked = (InitProducerIdRequest(transactional_id=id_, transaction_timeout_ms=1000) for id_ in IDS)
    return [(await ask(bootstrap, one, InitProducerIdResponse, 5)).error_code for one in asked]


def strange(status):
    """A batch with a transaction of a status that there is not."""
    found = entry("from the future", Transaction(7, 0, 1000, 5), 0)
    builder = BatchBuilder()
    builder.append(*CODEC.encode(found._replace(value=replace(found.value, transaction_status=status))), 1)
    return builder.build()


def test_transactions_of_an_unknown_status_cost_only_themselves(node):
    assert asyncio.run(codes(node.bootstrap)) == [0] * len(IDS)
    rows = [PartitionProduceData(index=index, records=strange(99)) for index in range(2)]
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="__transaction_state", partition_data=rows)]
    )
    answer = asyncio.run(ask(node.bootstrap, request, ProduceResponse, 9, "__admin_client"))
    assert [row.error_code for row in answer.responses[0].partition_responses] == [0, 0]
    node.restart()
    assert asyncio.run(codes(node.bootstrap)) == [0] * len(IDS)
    assert "a transaction of unknown status 99" in node.log
    with urlopen(f"http://{node.node(1).ready['metrics']}/metrics") as page:
        shown = page.read().decode()
    assert 'kavka_coordinator_records_passed_over_total{topic="__transaction_state"} 2.0' in shown

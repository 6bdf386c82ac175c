"""The blocking client on a running node."""

from __future__ import annotations

import threading

import pytest

from kavka.client import At, ConfigResource, TopicPartition, blocking
from kavka.model.errors import NetworkException, RequestTimedOut, UnknownTopicOrPartition
from kavka.testing.plugin import Kavka


def test_the_whole_way_without_an_event_loop(kavka: Kavka) -> None:
    topic = kavka.topic(partitions=2)
    with blocking.Client(kavka.bootstrap) as client:
        with client.producer(codec="zstd") as producer:
            first = producer.send(topic, b"first", partition=1, timestamp=5).result(timeout=30)
            assert first == (topic, 1, 0, 5)
            deliveries = [producer.send(topic, b"%d" % index, partition=0) for index in range(20_000)]
            producer.flush()
            assert all(delivery.done() for delivery in deliveries)
            assert [delivery.result().offset for delivery in deliveries[:3]] == [0, 1, 2]
        with client.consumer(TopicPartition(topic, 0)) as consumer:
            assert [record.value for record in consumer.until_end()] == [b"%d" % index for index in range(20_000)]
            consumer.seek(19_999)
            assert next(iter(consumer)).offset == 19_999
            consumer.seek("end")
            assert consumer.read(timeout_ms=50) == []
        with client.consumer(topic, start=At(6)) as consumer:
            assert consumer.end_offsets() == {TopicPartition(topic, 0): 20_000, TopicPartition(topic, 1): 1}
            assert consumer.start_offsets(TopicPartition(topic, 0)) == {TopicPartition(topic, 0): 0}


def test_admin_methods_have_the_signatures_and_docs_of_the_async_ones(kavka: Kavka) -> None:
    topic = kavka.topic()
    admin = kavka.client.admin
    assert topic in {each.name for each in admin.list_topics()}
    admin.alter_configs(ConfigResource.topic(topic), set={"retention.ms": "1000"})
    assert blocking.Admin.__dict__["list_topics"].__doc__ is not None


def test_errors_are_raised_where_the_result_is_asked_for(kavka: Kavka) -> None:
    topic = kavka.topic()
    with blocking.Client(kavka.bootstrap) as client:
        producer = client.producer()
        delivery = producer.send(topic, b"v", partition=9)
        with pytest.raises(UnknownTopicOrPartition):
            delivery.result()
        producer.close()
        producer = client.producer()
        producer.send(topic, b"v", partition=9)
        with pytest.raises(UnknownTopicOrPartition):
            producer.close()
        with pytest.raises(UnknownTopicOrPartition):
            client.consumer("no-such-topic")


def test_an_exception_in_the_block_is_not_replaced_and_nothing_more_is_sent(kavka: Kavka) -> None:
    topic = kavka.topic()
    with blocking.Client(kavka.bootstrap) as client:
        with pytest.raises(KeyError):
            _fail_after_sending(client, topic)
        with client.consumer(topic) as consumer:
            assert list(consumer.until_end()) == []


def _fail_after_sending(client: blocking.Client, topic: str) -> None:
    with client.producer(linger_ms=60_000) as producer:
        producer.send(topic, b"v")
        raise KeyError


def test_waiting_for_a_delivery_can_end_before_it(kavka: Kavka) -> None:
    topic = kavka.topic()
    with blocking.Client(kavka.bootstrap) as client, client.producer(linger_ms=60_000) as producer:
        delivery = producer.send(topic, b"v")
        with pytest.raises(RequestTimedOut):
            delivery.result(timeout=0.05)
        producer.flush()
        assert delivery.result().offset == 0


def test_threads_may_share_a_producer(kavka: Kavka) -> None:
    topic = kavka.topic()
    with blocking.Client(kavka.bootstrap) as client:
        with client.producer() as producer:
            threads = [
                threading.Thread(target=lambda: [producer.send(topic, b"v") for _ in range(500)]) for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        with client.consumer(topic) as consumer:
            assert sum(1 for _ in consumer.until_end()) == 2000


def test_a_client_leaves_no_thread_behind(kavka: Kavka) -> None:
    before = threading.active_count()
    with blocking.Client(kavka.bootstrap):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before
    with pytest.raises(NetworkException):
        blocking.Client("127.0.0.1:1")
    assert threading.active_count() == before


def test_a_closed_client_says_so(kavka: Kavka) -> None:
    client = blocking.Client(kavka.bootstrap)
    client.close()
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.admin.list_topics()

"""`kavka.testing` with a real node: faults, the fixture, what a failing test shows."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from kavka.client import Consumer, Delivered, Producer, blocking
from kavka.testing import Cluster, NodeError
from kavka.testing.plugin import Kavka

pytest_plugins = ["pytester"]


def test_a_cluster_starts_stops_and_leaves_nothing_behind() -> None:
    with Cluster() as cluster:
        assert cluster.running
        assert cluster.started_in_seconds < 10
        assert len(cluster.cluster_id) == 22
        data = cluster.data_dir
        assert (data / "meta.properties").exists()
        assert cluster.stop() == 0
        assert not cluster.running
    assert not data.parent.exists()


def test_a_restart_keeps_address_and_data(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path / "data") as cluster:
        before = cluster.bootstrap, cluster.cluster_id, cluster.pid
        cluster.restart()
        assert (cluster.bootstrap, cluster.cluster_id) == before[:2]
        assert cluster.pid != before[2]
    assert (tmp_path / "data" / "meta.properties").exists()


def test_config_reaches_the_node() -> None:
    with Cluster(config={"num.partitions": "5"}) as cluster, blocking.Client(cluster.bootstrap) as client:
        assert client.admin.create_topic("orders").partitions == 5


def test_a_node_that_hangs_at_the_end_is_killed_and_told() -> None:
    cluster = Cluster().start()
    os.kill(cluster.pid, signal.SIGSTOP)
    with pytest.raises(NodeError, match=r"did not stop within 0\.2 s"):
        cluster.stop(timeout=0.2)
    assert not cluster.running
    cluster.close()


def test_an_idempotent_producer_outlives_its_broker() -> None:
    rounds, each = 4, 300

    async def restart(cluster: Cluster) -> None:
        await asyncio.to_thread(cluster.kill)
        await asyncio.to_thread(cluster.start)

    async def produce(cluster: Cluster) -> list[Delivered]:
        deliveries = []
        async with Producer(cluster.bootstrap, linger_ms=1, batch_bytes=500) as producer:
            for turn in range(rounds):
                for index in range(each):
                    deliveries.append(await producer.send("orders", b"%d-%d" % (turn, index)))
                    if index == each // 2 and turn:
                        await restart(cluster)
                    if not index % 20:
                        await asyncio.sleep(0.001)
            return [await delivery for delivery in deliveries]

    async def consume(cluster: Cluster) -> list[bytes | None]:
        async with Consumer(cluster.bootstrap) as consumer:
            await consumer.assign("orders")
            return [record.value async for record in consumer.until_end()]

    with Cluster() as cluster:
        delivered = asyncio.run(produce(cluster))
        values = asyncio.run(consume(cluster))
    assert [place.offset for place in delivered] == list(range(rounds * each))
    assert values == [b"%d-%d" % (turn, index) for turn in range(rounds) for index in range(each)]


def test_a_consumer_outlives_its_broker() -> None:
    async def work(cluster: Cluster) -> None:
        async with Producer(cluster.bootstrap) as producer, Consumer(cluster.bootstrap) as consumer:
            await producer.send_and_wait("orders", b"before")
            await consumer.assign("orders")
            assert [record.value for record in await consumer.read(timeout_ms=20_000)] == [b"before"]
            await asyncio.to_thread(cluster.kill)
            await asyncio.to_thread(cluster.start)
            await producer.send_and_wait("orders", b"after")
            assert [record.value for record in await consumer.read(timeout_ms=20_000)] == [b"after"]

    with Cluster() as cluster:
        asyncio.run(work(cluster))


def test_topics_of_the_fixture_are_of_one_test_only(kavka: Kavka) -> None:
    first, second = kavka.topic(), kavka.topic(partitions=2)
    assert first != second
    assert {first, second} <= {topic.name for topic in kavka.client.admin.list_topics()}


def test_the_fixture_cleans_up_and_a_failing_test_shows_the_nodes_log(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAVKA_TEST_BOOTSTRAP", raising=False)
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kavka_config():
            return {"num.partitions": "4"}

        def test_first(kavka):
            kavka.topic()
            assert kavka.client.admin.create_topic("auto").partitions == 4

        def test_second(kavka):
            assert [topic.name for topic in kavka.client.admin.list_topics()] == ["auto"]
            kavka.cluster.kill()

        def test_third(kavka):
            assert kavka.cluster.running
            assert False, "on purpose"
        """
    )
    result = pytester.runpytest_subprocess("-q")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*kavka node log*", "*serves 127.0.0.1:*"])


def test_a_fixture_of_the_session_has_a_node_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="session")
        def orders(kavka_session):
            return kavka_session.topic()

        def test_first(kavka, orders):
            with kavka.client.producer() as producer:
                producer.send(orders, b"kept").result()

        def test_second(kavka, orders):
            with kavka.client.consumer(orders) as consumer:
                assert [record.value for record in consumer.until_end()] == [b"kept"]
        """
    )
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=2)


def test_each_worker_of_xdist_has_a_node_of_its_own(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAVKA_TEST_BOOTSTRAP", raising=False)
    program = """
        from pathlib import Path

        def test_a_node_without_the_topics_of_others(kavka):
            assert kavka.client.admin.list_topics() == []
            kavka.client.admin.create_topic("mine")
            Path(__file__).with_suffix(".bootstrap").write_text(kavka.bootstrap)

        def test_on_purpose(kavka):
            assert not kavka.client.admin.list_topics()
    """
    pytester.makepyfile(test_first=program, test_second=program)
    result = pytester.runpytest_subprocess("-q", "-n", "2", "--dist", "loadfile")
    result.assert_outcomes(passed=2, failed=2)
    assert str(result.stdout).count("kavka node log") == 2
    assert len({path.read_text() for path in pytester.path.glob("*.bootstrap")}) == 2

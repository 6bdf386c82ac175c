"""Thousands of connections that never mean to get in: some say nothing, some drip, some send garbage."""

from __future__ import annotations

import resource
import statistics
import threading
from collections.abc import Iterator

import psutil
import pytest
from bench.bulk import PARTITIONS
from bench.flood import CONNECTIONS, KEPT_PERCENT, PROTOCOLS, TURN_S, Flood, config_of, flooding, rate
from bench.node import Node

from kavka.client import blocking
from kavka.testing import Cluster
from kavka.testing.local import free_ports
from kavka.testing.secured import Secured
from scale import FULL, rounds

MEMORY_BYTES = 150_000_000
FLOOD = rounds(CONNECTIONS, 500)
PAIRS = rounds(5, 1)
MESSAGES = rounds(300_000, 20_000)


@pytest.fixture
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Secured, dict[str, int]]]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * FLOOD
    if hard < 3 * wanted:
        pytest.skip(f"a process may open {hard} files here, {3 * wanted} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    made = Secured(tmp_path_factory.mktemp("secured"))
    ports = dict(zip(PROTOCOLS, free_ports(len(PROTOCOLS)), strict=True))
    config = config_of(made, ports)
    with Cluster(config=config, users=made.users) as cluster:
        yield cluster, made, ports
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Flooding:
    """The flood, in a thread."""

    def __init__(self, ports: list[int]) -> None:
        self._flood = Flood(FLOOD, ports)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.full = threading.Event()

    @property
    def opened(self) -> int:
        return self._flood.opened

    def __enter__(self) -> Flooding:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._flood.close()

    def _run(self) -> None:
        self._flood.open()
        self.full.set()
        while not self._stop.wait(TURN_S):
            self._flood.go_on()


@pytest.mark.apart
def test_those_who_are_in_are_served_and_memory_stays_bounded(
    secured: tuple[Cluster, Secured, dict[str, int]],
) -> None:
    cluster, made, ports = secured
    process = psutil.Process(cluster.pid)
    bootstrap = f"127.0.0.1:{ports['SASL_SSL']}"
    with blocking.Client(bootstrap, security=made.client()) as client:
        client.admin.create_topic("orders", partitions=1)
        with Flooding(list(ports.values())) as flood, client.producer() as producer:
            largest = 0
            sent = 0
            while not flood.full.is_set() or sent < 500:
                producer.send("orders", bytes(1000)).result()
                sent += 1
                if sent % 50 == 0:
                    largest = max(largest, process.memory_info().rss)
                    with blocking.Client(bootstrap, security=made.client()) as newcomer:  # and so is who comes now
                        assert newcomer.admin.list_topics()
            assert flood.opened >= FLOOD
            largest = max(largest, process.memory_info().rss)
    assert cluster.running
    assert largest < MEMORY_BYTES, f"{largest >> 20} MiB"


@pytest.mark.apart
def test_throughput_of_those_who_are_in_is_kept(
    secured: tuple[Cluster, Secured, dict[str, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, made, ports = secured
    node = Node(f"127.0.0.1:{ports['SASL_SSL']}", cluster.pid)
    with blocking.Client(node.bootstrap, security=made.client()) as client:
        client.admin.create_topic("orders", partitions=PARTITIONS)
    rate(node, made, MESSAGES // 4)
    kept = []
    for _ in range(PAIRS):
        without = rate(node, made, MESSAGES)
        with flooding(list(ports.values()), FLOOD):
            kept.append(100 * rate(node, made, MESSAGES) / without)
    memory = node.peak_rss_bytes()
    with capsys.disabled():
        print(  # noqa: T201
            f"\nwith {FLOOD:,} that do not log in: {statistics.median(kept):.0f} % of the throughput "
            f"({', '.join(f'{each:.0f}' for each in kept)}), at most {memory / 1e6:.0f} MB"
        )
    assert cluster.running
    assert memory < MEMORY_BYTES
    if FULL:
        assert statistics.median(kept) >= KEPT_PERCENT

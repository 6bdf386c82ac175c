"""Two thousand connections that never mean to get in: some say nothing, some drip, some send garbage."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator

import psutil
import pytest
from bench.flood import CONNECTIONS, PROTOCOLS, TURN_S, Flood, config_of

from kavka.client import blocking
from kavka.testing import Cluster
from kavka.testing.local import free_ports
from kavka.testing.secured import Secured

MEMORY_BYTES = 150 << 20


@pytest.fixture
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Secured, dict[str, int]]]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * CONNECTIONS
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
        self._flood = Flood(CONNECTIONS, ports)
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
            assert flood.opened >= CONNECTIONS
            largest = max(largest, process.memory_info().rss)
    assert cluster.running
    assert largest < MEMORY_BYTES, f"{largest >> 20} MiB"

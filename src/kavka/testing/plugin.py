"""The pytest plugin: fixture `kavka`, one real node per session with topics of its own for each test.

`kavka_session` is the same node for fixtures of a wider scope than a test. `kavka_cluster` is three nodes that form a
cluster, also one per session. `kavka_secure` is one node with TLS, SCRAM and access rules.

Set `KAVKA_TEST_BOOTSTRAP` to run the same tests against a cluster that is already there.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # a plugin is imported by every pytest run, also those that never ask for a node
    from kavka.client import blocking
    from kavka.testing.cluster import Cluster
    from kavka.testing.secured import Secured

_LOG_LINES = 50
_VISIBLE_MS = 10_000
_NODE_KEY = pytest.StashKey["Kavka"]()


class Kavka:
    """What a test sees of the node."""

    def __init__(self, bootstrap: str, cluster: Cluster | None, prefix: str) -> None:
        self.bootstrap = bootstrap
        """HOST:PORT for any Kafka client."""
        self.cluster = cluster
        """The process, or None when the tests run against another cluster."""
        self._prefix = prefix
        self._topics: list[str] = []
        self._client: blocking.Client | None = None

    @property
    def client(self) -> blocking.Client:
        """A blocking client of the node, opened at first use."""
        if self._client is None:
            from kavka.client import blocking

            self._client = blocking.Client(self.bootstrap)
        return self._client

    def topic(
        self, *, partitions: int = 1, replication_factor: int = -1, configs: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic that only this test uses and that goes when it ends; returns its name."""
        name = f"{self._prefix}-{len(self._topics)}"
        self.client.admin.create_topic(
            name, partitions=partitions, replication_factor=replication_factor, configs=configs
        )
        self._topics.append(name)
        self.client.run(self.client.pool.topic(name, wait_ms=_VISIBLE_MS))  # in a larger cluster it takes a moment
        return name

    def close(self) -> None:
        """Delete this test's topics and hang up."""
        if self._client is None:
            return
        try:
            if self._topics and (self.cluster is None or self.cluster.running):
                self._client.admin.delete_topics(self._topics)
        finally:
            self._client.close()
            self._client = None


class SecureKavka(Kavka):
    """What a test sees of a secured node."""

    def __init__(self, secured: Secured, cluster: Cluster, prefix: str) -> None:
        from kavka.client.security import SecuredBootstrap

        self._secured = secured
        super().__init__(SecuredBootstrap(cluster.bootstrap, secured.client()), cluster, prefix)

    @property
    def security(self) -> dict[str, str]:
        """The options of a client that may do everything, as in Kafka's client.properties."""
        return self._secured.client()

    @property
    def ca(self) -> str:
        """The file with the certificate of the authority that vouches for the node."""
        return str(self._secured.folder / "ca.pem")

    def user(self, name: str, password: str) -> dict[str, str]:
        """Give somebody a password, for SCRAM-SHA-512, and no rights; the options of a client that logs in with it."""
        from kavka.testing.secured import set_password

        self._secured.passwords[name] = password
        self.client.run(set_password(self.client.pool, name, password))
        return self._secured.client(name)


@pytest.fixture(scope="session")
def kavka_config() -> Mapping[str, str]:
    """Override this fixture to give the node `server.properties` keys."""
    return {}


@pytest.fixture(scope="session")
def kavka_node(kavka_config: Mapping[str, str]) -> Iterator[Cluster]:
    """The node that all tests of the session share."""
    from kavka.testing.cluster import Cluster

    with Cluster(config=kavka_config) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kavka_cluster_nodes() -> int:
    """Override this fixture for another number of nodes."""
    return 3


@pytest.fixture(scope="session")
def kavka_cluster_session(kavka_config: Mapping[str, str], kavka_cluster_nodes: int) -> Iterator[Cluster]:
    """The cluster that all tests of the session share."""
    from kavka.testing.cluster import Cluster

    with Cluster(nodes=kavka_cluster_nodes, quorum=True, config=kavka_config) as cluster:
        yield cluster


@pytest.fixture
def kavka_cluster(request: pytest.FixtureRequest, kavka_cluster_session: Cluster) -> Iterator[Kavka]:
    """A running cluster: as `kavka`, with `kavka.cluster.kill(2)` and the like; all nodes run when a test begins."""
    kavka = Kavka(kavka_cluster_session.start().bootstrap, kavka_cluster_session, f"test-{os.urandom(6).hex()}")
    request.node.stash[_NODE_KEY] = kavka
    try:
        yield kavka
    finally:
        kavka.close()


@pytest.fixture(scope="session")
def kavka_secure_session(
    kavka_config: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, Secured]]:
    """The secured node that all tests of the session share."""
    from kavka.testing.cluster import Cluster
    from kavka.testing.local import free_ports
    from kavka.testing.secured import Secured

    secured = Secured(tmp_path_factory.mktemp("kavka-secure"))
    config = {"listeners": f"SASL_SSL://127.0.0.1:{free_ports(1)[0]}", **secured.nodes, **kavka_config}
    with Cluster(config=config, users=secured.users) as cluster:
        yield cluster, secured


@pytest.fixture
def kavka_secure(
    request: pytest.FixtureRequest, kavka_secure_session: tuple[Cluster, Secured]
) -> Iterator[SecureKavka]:
    """A node with TLS, SCRAM and access rules: as `kavka`, with `kavka_secure.security` for `kavka.client`."""
    cluster, secured = kavka_secure_session
    kavka = SecureKavka(secured, cluster.start(), f"test-{os.urandom(6).hex()}")
    request.node.stash[_NODE_KEY] = kavka
    try:
        yield kavka
    finally:
        kavka.close()


@pytest.fixture(scope="session")
def kavka_session(request: pytest.FixtureRequest) -> Iterator[Kavka]:
    """The node for fixtures of a wider scope than a test: as `kavka`, with topics that stay for the session."""
    yield from _node(request)


@pytest.fixture
def kavka(request: pytest.FixtureRequest) -> Iterator[Kavka]:
    """A running node: `kavka.bootstrap` for any client, `kavka.topic()` for a topic of this test alone."""
    for kavka in _node(request):
        request.node.stash[_NODE_KEY] = kavka
        yield kavka


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failing test shows the last lines of its node's log."""
    report = yield
    kavka = item.stash.get(_NODE_KEY, None)
    if report.failed and kavka is not None and kavka.cluster is not None:
        lines = kavka.cluster.log.splitlines()[-_LOG_LINES:]
        report.sections.append(("kavka node log", "\n".join(lines)))
    return report


def _node(request: pytest.FixtureRequest) -> Iterator[Kavka]:
    elsewhere = os.environ.get("KAVKA_TEST_BOOTSTRAP")
    cluster: Cluster | None = None if elsewhere else request.getfixturevalue("kavka_node")
    kavka = Kavka(elsewhere or _running(cluster), cluster, f"test-{os.urandom(6).hex()}")
    try:
        yield kavka
    finally:
        kavka.close()


def _running(cluster: Cluster | None) -> str:
    """The address of the shared node, started again if a test has ended it."""
    assert cluster is not None
    return cluster.start().bootstrap

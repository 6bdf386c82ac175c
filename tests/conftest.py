"""What every test shares."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from kavka.testing import Cluster

# How long an example takes says more about the machine's other work than about the code.
settings.register_profile("kavka", deadline=None)
settings.load_profile("kavka")


@pytest.fixture(autouse=True, scope="session")
def no_node_stumbles() -> Iterator[None]:
    """Whatever is done to a node, it never has an error that nobody thought of: those are printed with a traceback."""
    close = Cluster.close

    def close_and_look(cluster: Cluster) -> None:
        try:
            cluster.stop()
        finally:
            log = cluster.log
            close(cluster)
        assert "Traceback (most recent call last)" not in log, log

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cluster, "close", close_and_look)
        yield

"""What every test shares."""

from __future__ import annotations

import gc
import signal
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from kavka.testing import Cluster

# How long an example takes says more about the machine's other work than about the code.
settings.register_profile("kavka", deadline=None)
settings.load_profile("kavka")

# A shell has what it starts in the background ignore this signal, and that is inherited by programs under test.
signal.signal(signal.SIGINT, signal.default_int_handler)

TOGETHER = {
    "spark": ("exactly_once", "jobs", "lake", "page", "sink", "source", "stream"),
    "compat/jvm/differential": ("differential", "planted"),
}
"""Files by folder whose tests share what takes long to start: they run in one worker, and begin first."""
PAGES = "tests/docs/test_pages.py"
"""Its tests share nothing: a page has a node of its own."""
SHORT = ("tests/architecture", "tests/unit")
"""What is left for the end, where it keeps all workers busy."""
LITTER = ("tests/compat/", "tests/spark/")
"""Where programs of others leave sockets to the garbage collector: Spark those of its workers, kafka-python and
aiokafka those of log-ins that failed."""


def _scope(node_id: str) -> str:
    """The tests that run in one worker: those of a file, or of files that share something."""
    file = node_id.partition("::")[0]
    if file == PAGES:
        return node_id
    for folder, stems in TOGETHER.items():
        if file.startswith(f"tests/{folder}/") and file.endswith(tuple(f"/test_{stem}.py" for stem in stems)):
            return folder
    return file


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that take longest, and blame nobody for what others leave."""
    for item in items:
        if item.nodeid.startswith(LITTER):
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
    items.sort(key=lambda item: (_scope(item.nodeid) not in TOGETHER, item.nodeid.startswith(SHORT)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out tests side by side by what they share (xdist's own groups by mark do nothing from pytest 9.2 on)."""
    from xdist.scheduler import LoadFileScheduling

    class ByScope(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _scope(nodeid)

    return ByScope(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(autouse=True, scope="module")
def no_litter_for_others(request: pytest.FixtureRequest) -> Iterator[None]:
    """What the tests of a file leave to the garbage collector is collected, and told, at its end: not amid others."""
    yield
    with warnings.catch_warnings():
        if request.node.nodeid.startswith(LITTER):
            warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


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

"""The two nodes of the behaviour comparison, and what they did with every case."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from jvm.differential.session import Told
    from jvm.java_tools import Java


SETTINGS = {"group.streams.max.size": "3"}
"""What both nodes are configured with beyond what every node is: a limit that cases can reach."""


@pytest.fixture(scope="session")
def kafkas(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """What Apache Kafka did."""
    from jvm.differential.session import ask_everything
    from jvm.nodes import APACHE, running

    with running(APACHE, java, tmp_path_factory.mktemp("kafkas"), SETTINGS) as node:
        yield ask_everything(node)


@pytest.fixture(scope="session")
def ours(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """What the node under test did."""
    from jvm.differential.session import ask_everything
    from jvm.nodes import running, target

    with running(target(), java, tmp_path_factory.mktemp("ours"), SETTINGS) as node:
        yield ask_everything(node)

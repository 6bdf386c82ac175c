"""Fixtures of the tier that compares Kavka with Apache Kafka.

It needs a JDK and the jars of tools/kafka_jars, so only `make compat-jvm` asks for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from jvm.java_tools import Java, Outcome
    from jvm.nodes import Node
    from jvm.tools import Tools

ENABLED = os.environ.get("KAVKA_COMPAT_JVM") == "1"
collect_ignore_glob = [] if ENABLED else ["*"]  # the switch: a plain `make test` needs no Java

HERE = Path(__file__).resolve().parent

# So that the cases can say `from jvm.nodes import ...` and `from kafka_jars import fetch`.
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent), str(HERE.parent.parent.parent / "tools")]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from jvm import waiting
    from jvm.nodes import KAVKA, target

    if target() != KAVKA:
        return
    for item in items:
        if HERE not in item.path.parents:
            continue
        reason = waiting.reason(waiting.name_of(item))
        if reason and not waiting.try_them():
            item.add_marker(pytest.mark.skip(reason=f"waits for {reason}"))
        elif reason:
            item.add_marker(pytest.mark.xfail(reason=f"waits for {reason}", strict=True))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not ENABLED:
        terminalreporter.write_line("tests/compat/jvm was left out: it needs Java, and make compat-jvm runs it")
        return
    from jvm import waiting
    from jvm.nodes import target

    # by what was reported: of tests that run side by side nothing else reaches the process that prints
    reports = (one for some in terminalreporter.stats.values() for one in some if isinstance(one, pytest.TestReport))
    cases = {waiting.name_in(report.nodeid) for report in reports}
    waits = waiting.by_reason(cases)
    terminalreporter.section(f"{len(cases)} cases against {target()}", sep="-")
    for reason, names in waits.items():
        terminalreporter.write_line(f"{len(names)} wait for {reason}:")
        for name in names:
            terminalreporter.write_line(f"  {name}")


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """The folder of Apache Kafka's jars."""
    from jvm.java_tools import fetch, missing

    reason = missing()
    if reason:
        pytest.skip(reason)
    return fetch.folder()


@pytest.fixture(scope="session")
def java(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    """Kafka's jars and our drivers, compiled."""
    from jvm.java_tools import Java

    java = Java(kafka_jars, tmp_path_factory.mktemp("classes"))
    java.compile()
    yield java
    java.close()


@pytest.fixture(scope="session")
def apache_kafka(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A real Apache Kafka node that the whole session shares."""
    from jvm.nodes import APACHE, running

    with running(APACHE, java, tmp_path_factory.mktemp("apache")) as node:
        yield node


@pytest.fixture(scope="session")
def node(java: Java, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Node]:
    """The node under test that the whole session shares."""
    from jvm import plain_user
    from jvm.nodes import APACHE, running, target

    if target() == APACHE and not plain_user.ASKED:
        yield request.getfixturevalue("apache_kafka")
        return
    with running(target(), java, tmp_path_factory.mktemp("kavka"), plain_user.overrides()) as node:
        plain_user.grant(node.bootstrap)
        yield node


@pytest.fixture
def jvm_tool(java: Java) -> Callable[..., Outcome]:
    """Runs a Kafka tool by main class: jvm_tool(main_class, arguments, stdin=b"", timeout=60)."""
    return java.run


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of this test's own."""
    name = "".join(c if c.isalnum() or c == "-" else "-" for c in request.node.name)
    return name.removeprefix("test_")[:200]


@pytest.fixture(scope="session")
def tools(java: Java, node: Node) -> Tools:
    """Kafka's command-line tools against the node under test."""
    from jvm.tools import Tools

    return Tools(java, node)


@pytest.fixture
def made_topic(tools: Tools, topic: str) -> str:
    """A topic of this test's own with two partitions."""
    tools.topics("--create", "--topic", topic, "--partitions", "2").must_succeed()
    return topic

"""The examples, run as they are: against a node, ended by SIGTERM, killed and started again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import util
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from tests.scale import FULL

from kavka.client import blocking
from kavka.testing.cluster import Cluster
from kavka.testing.local import free_ports

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS = 120.0


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def until(look: Callable[[], bool]) -> None:
    ends = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < ends
        time.sleep(0.1)


@contextmanager
def example(name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.terminate()
        assert process.wait(SECONDS) == 0


def values(client: blocking.Client, topic: str) -> list[bytes | None]:
    with client.consumer(topic, isolation="read_committed") as consumer:
        return [record.value for record in consumer.until_end()]


def test_a_worker_retries_and_puts_aside_what_keeps_failing(node: Cluster) -> None:
    with blocking.Client(node.bootstrap) as client:
        for topic in ("jobs", "jobs-failed"):
            client.admin.create_topic(topic)
        with client.producer() as producer:
            for value in (b"one", b"fail at this", b"two"):
                producer.send("jobs", value)
        with example("worker.py", node.bootstrap, "jobs") as worker:
            assert worker.stdout is not None
            assert [worker.stdout.readline() for _ in range(2)] == ["one\n", "two\n"]
            until(lambda: sum(each.offset for each in client.admin.group_offsets("jobs-worker").values()) == 3)
        assert values(client, "jobs-failed") == [b"fail at this"]


def test_what_is_transformed_in_transactions_is_there_once_although_the_process_is_killed(node: Cluster) -> None:
    with blocking.Client(node.bootstrap) as client:
        client.admin.create_topic("words", partitions=2)
        client.admin.create_topic("shouted", partitions=1)
        sent: list[bytes] = []
        for _ in range(2):
            with client.producer() as producer:
                for _ in range(50):
                    sent.append(b"word %d" % len(sent))
                    producer.send("words", sent[-1])
            command = [sys.executable, str(EXAMPLES / "exactly_once.py"), node.bootstrap, "words", "shouted"]
            with subprocess.Popen(command) as process:
                until(lambda: len(values(client, "shouted")) > 0 and len(values(client, "shouted")) > len(sent) - 50)
                process.kill()
        with example("exactly_once.py", node.bootstrap, "words", "shouted"):
            sent.append(b"the last")
            with client.producer() as producer:
                producer.send("words", sent[-1])
            until(lambda: len(values(client, "shouted")) >= len(sent))
        assert sorted(value or b"" for value in values(client, "shouted")) == sorted(word.upper() for word in sent)


@pytest.mark.skipif(
    util.find_spec("fastapi") is None or util.find_spec("uvicorn") is None, reason="fastapi or uvicorn is missing"
)
def test_a_web_application_writes_and_reads(node: Cluster) -> None:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "uvicorn", "fastapi_app:app", "--app-dir", str(EXAMPLES), "--port", str(port)]

    def ask(path: str, method: str = "GET") -> object:
        with urlopen(Request(f"http://127.0.0.1:{port}{path}", method=method), timeout=SECONDS) as answer:
            return json.loads(answer.read())

    def answers() -> bool:
        with suppress(ConnectionError, URLError):
            return ask("/seen") == 0
        return False

    with subprocess.Popen(command, env={**os.environ, "KAVKA_BOOTSTRAP": node.bootstrap}) as web:
        try:
            until(answers)
            for number, item in enumerate(("apple", "pear")):
                assert ask(f"/orders/anna?item={item}", "POST") == {"partition": 0, "offset": number}
            until(lambda: ask("/seen") == 2)
        finally:
            web.terminate()
        assert web.wait(SECONDS) in (0, -signal.SIGTERM)


def test_the_demo_of_a_node_reads_back_what_it_wrote() -> None:
    played = subprocess.run(
        [sys.executable, str(EXAMPLES / "demo.py"), "--records", "20000"], stdout=subprocess.PIPE, text=True, check=True
    )
    assert "20,000 of 200 bytes" in played.stdout
    assert re.search(r"counts and checksums\s+equal", played.stdout)


@pytest.mark.parametrize("store", [[], ["--s3"]] if FULL else [[]])
def test_a_node_that_loses_its_disk_is_made_anew_out_of_its_store(store: list[str]) -> None:
    if store:
        for package, extra in (("obstore", "cloud"), ("moto", "test")):
            pytest.importorskip(package, reason=f"{package} is not installed: the extra {extra}")
    played = subprocess.run(
        [sys.executable, str(EXAMPLES / "tiered_demo.py"), *store], stdout=subprocess.PIPE, text=True, check=True
    )
    *_, last = played.stdout.splitlines()
    assert last.endswith("records are back, byte for byte")

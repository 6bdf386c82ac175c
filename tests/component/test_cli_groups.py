"""`kavka consume --group` and `kavka groups` against a running node: who reads on where another has left off."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kavka.cli.consume import Show, print_group
from kavka.client import ConsumerRecord, GroupConsumer
from kavka.testing.plugin import Kavka

LEFT = {signal.SIGINT: 130, signal.SIGTERM: 143}


def environment(kavka: Kavka) -> dict[str, str]:
    return {**os.environ, "KAVKA_BOOTSTRAP": kavka.bootstrap}


def run(kavka: Kavka, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kavka", *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, env=environment(kavka), timeout=60, check=False
    )


def output(kavka: Kavka, *arguments: str, stdin: str = "") -> str:
    done = run(kavka, *arguments, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def offsets(kavka: Kavka, group: str) -> list[dict[str, Any]]:
    (described,) = json.loads(output(kavka, "groups", "describe", group, "--output", "json"))
    assert described["members"] == []
    found = described["offsets"]
    assert isinstance(found, list)
    return found


@contextmanager
def following(kavka: Kavka, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "kavka", "consume", *arguments, "--follow"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(kavka))
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("signum", LEFT)
def test_a_consumer_that_is_told_to_stop_commits_what_it_has_shown_and_leaves(
    kavka: Kavka, signum: signal.Signals
) -> None:
    topic = kavka.topic()
    output(kavka, "produce", topic, stdin="1\n2\n")
    with following(kavka, topic, "--group", topic) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["1\n", "2\n"]
        process.send_signal(signum)
        assert process.wait(30) == LEFT[signum]
    assert [row["committed"] for row in offsets(kavka, topic)] == [2]
    output(kavka, "produce", topic, stdin="3\n")
    assert output(kavka, "consume", topic, "--group", topic) == "3\n"


def test_a_group_that_begins_at_the_end_misses_nothing_between_two_runs(kavka: Kavka) -> None:
    topic = kavka.topic()
    output(kavka, "produce", topic, stdin="old\n")
    assert output(kavka, "consume", topic, "--group", topic, "--from", "end") == ""
    output(kavka, "produce", topic, stdin="new\n")
    assert output(kavka, "consume", topic, "--group", topic, "--from", "end") == "new\n"


def test_a_member_reads_up_to_the_end_that_was_though_more_is_written_all_the_time(kavka: Kavka) -> None:
    topic = kavka.topic()
    shown: list[bytes | None] = []

    async def read() -> None:
        async with GroupConsumer(kavka.bootstrap, group=topic, topics=[topic], start="start") as member:
            await print_group(kavka.bootstrap, member, [topic], Show(write, None), None, follow=False)

    with kavka.client.producer() as producer:

        def write(record: ConsumerRecord) -> bytes:
            shown.append(record.value)
            assert len(shown) < 20
            producer.send(topic, b"more").result()
            return b""

        producer.send(topic, b"first").result()
        asyncio.run(read())
    assert shown == [b"first"]


def test_a_member_that_gets_nothing_says_so(kavka: Kavka) -> None:
    topic = kavka.topic()
    output(kavka, "produce", topic, stdin="1\n")
    with following(kavka, topic, "--group", topic) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        done = run(kavka, "consume", topic, "--group", topic)
    assert (done.returncode, done.stdout) == (1, "")
    assert "gave this member no partition" in done.stderr


def test_a_group_can_be_given_a_place_before_it_has_read(kavka: Kavka) -> None:
    topic = kavka.topic()
    output(kavka, "produce", topic, stdin="1\n2\n3\n")
    unknown = run(kavka, "groups", "reset-offsets", topic, "--to", "start")
    assert (unknown.returncode, "not found" in unknown.stderr) == (1, True)
    output(kavka, "groups", "reset-offsets", topic, "--topic", topic, "--to", "2", "--execute")
    assert output(kavka, "consume", topic, "--group", topic) == "3\n"


def test_a_transaction_that_was_read_leaves_no_lag(kavka: Kavka) -> None:
    topic = kavka.topic()
    with kavka.client.producer(transactional_id=topic) as producer, producer.transaction():
        producer.send(topic, b"1")
    assert output(kavka, "consume", topic, "--group", topic) == "1\n"
    assert [(row["committed"], row["end"], row["lag"]) for row in offsets(kavka, topic)] == [(2, 2, 0)]

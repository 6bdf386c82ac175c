"""What a node shows of itself, and the page that shows it."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from kavka.broker import metrics as shown
from kavka.broker import metrics_http
from kavka.broker.dispatch import Dispatcher
from kavka.broker.holding import Holding
from kavka.broker.metrics_http import MetricsPage
from kavka.broker.partition_metrics import show_partitions
from kavka.model.clock import ManualClock, SystemClock
from kavka.net.limits import ConnectionLimits
from kavka.net.server import Server, SocketOptions
from kavka.protocol.registry import ApiKey
from kavka.replica.cleaner import Cleaner
from kavka.replica.fetching import FetchEntry, FetchSessions
from kavka.telemetry.metrics import Metrics
from kavka.telemetry.prometheus import render


def values(metrics):
    """The samples without labels, and those with, as they are written."""
    lines = render(metrics).decode().splitlines()
    samples = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, value in samples}


def test_requests_are_counted_by_api():
    async def go():
        async with asyncio.TaskGroup() as tasks:
            dispatcher = Dispatcher(["metadata"], [], {ApiKey.FETCH: lambda *_: None}, tasks, ManualClock())
            server = Server([], dispatcher, ConnectionLimits(), SocketOptions(), ManualClock())
        metrics = Metrics()
        shown.show_requests(metrics, {"broker": dispatcher})
        shown.show_connections(metrics, server)
        dispatcher.requests[ApiKey.FETCH] += 3
        found = values(metrics)
        assert found['kavka_requests_total{api="Fetch",role="broker"}'] == 3
        assert found['kavka_requests_total{api="Metadata",role="broker"}'] == 0
        assert 'kavka_request_seconds_count{api="Fetch",role="broker"}' not in found

    asyncio.run(go())


def test_partitions_logs_and_sessions_are_shown_as_they_are(held):
    metrics = Metrics()
    sessions = FetchSessions(10, 1000, iter(range(1, 9)).__next__)
    shown.show_replicas(metrics, held.replicas, sessions, Cleaner(held.replicas, held.clock))
    show_partitions(metrics, held.replicas, "partition")
    held.topic("orders", 3)
    held.produce(held.replicas.find("orders", 0))
    held.replicas.find("orders", 1).log.failed = "the disk said no"
    held.replicas.dirs[0].fail("unplugged")
    sessions.begin(0, 0, [FetchEntry("orders", index, -1, 0, -1, -1, 1) for index in (0, 1)], (), False, 0)
    found = values(metrics)
    assert found["kavka_partitions"] == found["kavka_partitions_led"] == 3
    assert found["kavka_log_bytes"] == held.replicas.find("orders", 0).log.size_bytes > 0
    assert found["kavka_failed_logs"] == found["kavka_offline_log_dirs"] == 1
    assert (found["kavka_fetch_sessions"], found["kavka_fetch_session_partitions"]) == (1, 2)


def test_a_loop_that_is_held_is_seen():
    async def go():
        metrics = Metrics()
        watch = shown.LoopWatch(metrics, SystemClock(), Holding())
        task = asyncio.ensure_future(watch.run())
        while values(metrics)["kavka_loop_stalls_total"] == 0:
            await asyncio.sleep(0.01)
            deadline = asyncio.get_running_loop().time() + 0.2
            while asyncio.get_running_loop().time() < deadline:
                pass
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert values(metrics)["kavka_loop_worst_seconds"] > 0.02

    asyncio.run(asyncio.wait_for(go(), 20))


@contextlib.asynccontextmanager
async def page(metrics, unready=lambda: None):
    serving = MetricsPage(metrics, "127.0.0.1", 0, unready)
    host, _, port = (await serving.open()).rpartition(":")
    task = asyncio.ensure_future(serving.run())
    await asyncio.sleep(0)
    yield host, int(port), (serving, task)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        ("GET /metrics HTTP/1.1", "200 OK", b"answer 42.0"),
        ("GET /metrics?name=x HTTP/1.0", "200 OK", b"answer 42.0"),
        ("HEAD /metrics HTTP/1.1", "200 OK", b""),
        ("GET /healthz HTTP/1.1", "200 OK", b"ok"),
        ("GET /readyz HTTP/1.1", "503 Service Unavailable", b"the node starts"),
        ("GET / HTTP/1.1", "404 Not Found", b"/metrics"),
        ("POST /metrics HTTP/1.1", "405 Method Not Allowed", b"only GET"),
        ("nonsense", "405 Method Not Allowed", b"only GET"),
    ],
)
def test_few_pages_are_served_and_nothing_else(request_line, status, body):
    metrics = Metrics()
    metrics.gauge("answer", "To it all.", lambda: 42)

    async def go():
        async with page(metrics, lambda: "the node starts") as (host, port, _):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(f"{request_line}\r\nHost: x\r\n\r\n".encode())
            head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
            assert head.startswith(f"HTTP/1.1 {status}\r\n".encode())
            assert body in rest
            assert bool(rest) == bool(body)
            writer.close()

    asyncio.run(asyncio.wait_for(go(), 10))


@pytest.mark.parametrize("said", [b"GET /metrics HTTP/1.1\r\n" + b"x" * 20_000, b"GET", b""])
def test_who_asks_too_much_or_too_slowly_is_hung_up_on(said, monkeypatch):
    monkeypatch.setattr(metrics_http, "CLIENT_SECONDS", 0.05)

    async def go():
        async with page(Metrics()) as (host, port, _):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(said)
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()

    asyncio.run(asyncio.wait_for(go(), 10))


@pytest.mark.parametrize("asks", [False, True])
def test_a_client_that_dawdles_does_not_keep_the_node_from_stopping(asks):
    metrics = Metrics()
    metrics.counts("many", "Lines.", ("n",), lambda: (((f"{n:0200}",), n) for n in range(100_000)))

    async def go():
        async with page(metrics) as (host, port, (serving, task)):
            with socket.create_connection((host, port)) as sock:
                if asks:
                    sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
                await asyncio.sleep(0.2)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait_for(task, 2)
            while serving._clients:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(go(), 20))

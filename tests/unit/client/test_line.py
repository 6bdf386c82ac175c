"""One outgoing connection to a node, over a network and a clock that the tests play."""

from __future__ import annotations

import asyncio
import logging
import selectors
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kavka.client.connector import Connector
from kavka.client.line import AT_ONCE, STEADY, Backoff, Line
from kavka.model.errors import BrokerNotAvailable, KafkaError, NetworkException, SaslAuthenticationFailed
from kavka.protocol.header import encode_response, parse_request_header
from kavka.protocol.registry import ApiKey
from kavka.protocol.schemas.api_versions import ApiVersion, ApiVersionsResponse
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataResponse

HOME = ("node", 9092)
OFFERED = [
    ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4),
    ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=12),
]


class SkippingLoop(asyncio.SelectorEventLoop):
    """A loop in which nobody waits: when nothing else is to be done, the time jumps to what comes next."""

    class Selector(selectors.SelectSelector):
        waited = 0.0

        def select(self, timeout: float | None = None) -> list[Any]:
            events = super().select(0)
            if not events and timeout:
                self.waited += timeout
            return events

    def __init__(self) -> None:
        self.skipping = self.Selector()
        super().__init__(self.skipping)

    def time(self) -> float:
        return 1000.0 + self.skipping.waited


class Wire:
    """One end of a connection to a played node."""

    def __init__(self, network: Network, receiver: asyncio.BufferedProtocol) -> None:
        self.network = network
        self.receiver = receiver
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        header, _ = parse_request_header(bytes(data), 4)
        answer: object = MetadataResponse(brokers=[], topics=[])
        if header.api_key == ApiKey.API_VERSIONS:
            answer = ApiVersionsResponse(error_code=self.network.refuses_with, api_keys=OFFERED)
        pieces = encode_response(header.api_key, header.api_version, header.correlation_id, answer)
        frame = b"".join(bytes(piece) for piece in pieces)  # type: ignore[arg-type]
        asyncio.get_running_loop().call_soon(self._deliver, frame)

    def abort(self) -> None:
        self.aborted = True

    def _deliver(self, frame: bytes) -> None:
        if not self.aborted:
            self.receiver.get_buffer(-1)[: len(frame)] = frame
            self.receiver.buffer_updated(len(frame))
        if self.network.hangs_up:
            self.lose()

    def lose(self) -> None:
        """The other side hangs up."""
        self.receiver.connection_lost(None)


class Network:
    """Notes when and where it was dialled; what becomes of a dial is the test's choice."""

    def __init__(self) -> None:
        self.dialled: list[tuple[float, str]] = []
        self.down = False
        self.down_for = ""
        """The only host that is down, if it is not all."""
        self.refuses_with = 0
        self.hangs_up = False
        self.holding: asyncio.Event | None = None
        self.wires: list[Wire] = []

    async def dial(self, host: str, port: int, receiver: asyncio.BufferedProtocol) -> Wire:
        self.dialled.append((asyncio.get_running_loop().time() - 1000, host))
        if self.holding is not None:
            await self.holding.wait()
        if self.down and self.down_for in ("", host):
            raise NetworkException(f"cannot connect to {host}:{port}: Connection refused")
        self.wires.append(Wire(self, receiver))
        return self.wires[-1]

    @property
    def times_ms(self) -> list[int]:
        return [round(at * 1000) for at, _ in self.dialled]


def play(scenario: Callable[[Line, Network], Awaitable[None]], draw: float = 0.5, **options: Any) -> Network:
    network = Network()

    async def work() -> None:
        given = {"where": lambda: HOME, "name": "node 1", "client_id": "test", **options}
        await scenario(Line(Connector(network, lambda: draw), **given), network)

    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        runner.run(work())
    return network


async def fails(line: Line, times: int = 1, error: type[KafkaError] = NetworkException) -> None:
    for _ in range(times):
        with pytest.raises(error):
            await line.connect()


def test_it_is_dialled_when_it_is_needed_and_once_for_all_who_ask() -> None:
    async def scenario(line: Line, network: Network) -> None:
        assert line.connection is None
        assert not network.dialled
        first, second = await asyncio.gather(line.connect(), line.connect())
        assert first is second is line.connection is await line.connect()
        assert await line.request(MetadataRequest(topics=[])) == MetadataResponse(brokers=[], topics=[])
        assert len(network.dialled) == 1

    play(scenario)


def test_who_comes_while_somebody_dials_in_vain_fails_with_him_and_does_not_dial_after_him() -> None:
    async def scenario(line: Line, network: Network) -> None:
        network.down = True
        outcomes = await asyncio.gather(*(line.connect() for _ in range(20)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [NetworkException] * 20
        assert len(set(map(id, outcomes))) == 20
        assert len(network.dialled) == 1

    play(scenario)


def test_who_waits_for_one_that_gives_up_dials_himself() -> None:
    async def scenario(line: Line, network: Network) -> None:
        network.holding = asyncio.Event()
        first, second = asyncio.ensure_future(line.connect()), asyncio.ensure_future(line.connect())
        while not network.dialled:
            await asyncio.sleep(0)
        first.cancel()
        network.holding.set()
        assert not (await second).closed
        assert first.cancelled()
        assert len(network.dialled) == 2

    play(scenario)


def test_a_node_that_cannot_be_reached_is_left_alone_for_twice_as_long_each_time() -> None:
    async def scenario(line: Line, network: Network) -> None:
        network.down = True
        await fails(line, 8)
        network.down = False
        await line.connect()
        assert network.times_ms == [0, 50, 150, 350, 750, 1550, 2550, 3550, 4550]
        network.wires[-1].lose()  # it worked, so all begins again
        await line.connect()
        assert network.times_ms[-1] == 4600

    play(scenario)


def test_the_defaults_and_chance_are_those_of_kafkas_reconnect_backoff() -> None:
    backoff = Backoff(50, 1000)
    assert [backoff.seconds(failures, 0.5) for failures in (0, 1, 2, 3, 4, 5, 99)] == [
        0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0,
    ]  # fmt: skip
    assert [round(backoff.seconds(1, draw), 3) for draw in (0, 1)] == [0.08, 0.12]
    assert [round(backoff.seconds(9, draw), 3) for draw in (0, 1)] == [0.8, 1.0], "never longer than the longest"
    assert {STEADY.seconds(failures, draw) for failures in (0, 9) for draw in (0, 1)} == {0.05}, "no chance in it"


def test_a_connection_that_was_hung_up_here_is_replaced_at_once() -> None:
    async def scenario(line: Line, network: Network) -> None:
        lost: list[None] = []
        line.on_lost = lambda: lost.append(None)
        before = await line.connect()
        line.hang_up()
        assert before.closed
        (await line.connect()).close()
        await line.connect()
        assert network.times_ms == [0, 0, 0]
        assert not lost
        network.wires[-1].lose()
        assert len(lost) == 1

    play(scenario)


def test_a_node_that_takes_a_connection_and_drops_it_is_not_dialled_in_a_circle() -> None:
    async def scenario(line: Line, network: Network) -> None:
        network.hangs_up = True
        await fails(line, 3)
        assert network.times_ms == [0, 50, 150]

    play(scenario)


def test_whoever_hears_that_the_node_is_back_need_not_wait() -> None:
    async def scenario(line: Line, network: Network) -> None:
        network.down = True
        await fails(line, 5)
        network.down = False
        waiting = asyncio.ensure_future(line.connect())
        asyncio.get_running_loop().call_later(0.1, line.wake)
        await waiting
        assert network.times_ms == [0, 50, 150, 350, 750, 850]

    play(scenario)


def test_who_paces_himself_is_not_held_up() -> None:
    async def scenario(line: Line, network: Network) -> None:
        network.down = True
        await fails(line, 3)
        assert network.times_ms == [0, 0, 0]

    play(scenario, backoff=AT_ONCE)


def test_a_node_that_moves_is_dialled_where_it_is_and_at_once() -> None:
    homes = [("old", 1)]

    async def scenario(line: Line, network: Network) -> None:
        before = await line.connect()
        homes[0] = ("new", 1)
        assert await line.connect() is not before
        assert before.closed
        network.down = True
        line.hang_up()
        await fails(line)
        network.down = False
        waiting = asyncio.ensure_future(line.connect())
        await asyncio.sleep(0.01)
        homes[0] = ("newest", 1)
        assert await line.connect() is await waiting
        assert network.dialled == [(0, "old"), (0, "new"), (0, "new"), (pytest.approx(0.01), "newest")]

    play(scenario, where=lambda: homes[0])


@pytest.mark.parametrize("down", [False, True])
def test_a_node_that_moves_while_it_is_dialled_is_dialled_again(down: bool) -> None:
    homes = [("old", 1)]

    async def scenario(line: Line, network: Network) -> None:
        network.holding, network.down = asyncio.Event(), down
        first = asyncio.ensure_future(line.connect())
        while not network.dialled:
            await asyncio.sleep(0)
        homes[0] = ("new", 1)
        second = asyncio.ensure_future(line.connect())
        await asyncio.sleep(0)
        network.down_for = "old"
        network.holding.set()
        assert await first is await second
        assert [host for _, host in network.dialled] == ["old", "new"]
        assert [wire.aborted for wire in network.wires] == ([False] if down else [True, False])

    play(scenario, where=lambda: homes[0])


def test_without_an_address_nothing_is_dialled_and_nothing_is_waited_for() -> None:
    def nowhere() -> tuple[str, int]:
        raise BrokerNotAvailable("it has no listener")

    async def scenario(line: Line, network: Network) -> None:
        await fails(line, 3, BrokerNotAvailable)
        assert not network.dialled
        assert asyncio.get_running_loop().time() == 1000

    play(scenario, where=nowhere)


def test_failures_have_their_types_and_each_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(line: Line, network: Network) -> None:
        network.down = True
        await fails(line, 3, NetworkException)
        network.down, network.refuses_with = False, SaslAuthenticationFailed.code
        await fails(line, 4, SaslAuthenticationFailed)
        network.refuses_with = 0
        await line.connect()
        assert network.times_ms == [0, 50, 150, 350, 750, 1550, 2550, 3550]

    with caplog.at_level(logging.INFO, "kavka.client.line"):
        play(scenario)
    assert [(line.levelname, line.getMessage()) for line in caplog.records] == [
        (
            "WARNING",
            "connection to node 1 could not be established: cannot connect to node:9092: Connection refused",
        ),
        ("ERROR", "connection to node 1 failed authentication due to: node:9092 refused ApiVersions"),
        ("INFO", "connection to node 1 is established again"),
    ]


def test_a_closed_line_dials_no_more_and_keeps_nothing_that_it_dialled() -> None:
    async def scenario(line: Line, network: Network) -> None:
        network.holding = asyncio.Event()
        waiting = asyncio.ensure_future(line.connect())
        while not network.dialled:
            await asyncio.sleep(0)
        line.close()
        network.holding.set()
        with pytest.raises(NetworkException, match="closed"):
            await waiting
        assert network.wires[0].aborted
        await fails(line)
        assert len(network.dialled) == 1

    play(scenario)


def test_a_closed_line_lets_go_of_those_who_wait_to_dial() -> None:
    async def scenario(line: Line, network: Network) -> None:
        network.down = True
        await fails(line, 6)
        at = asyncio.get_running_loop().time()
        waiting = asyncio.ensure_future(line.connect())
        await asyncio.sleep(0)
        line.close()
        with pytest.raises(NetworkException, match="closed"):
            await waiting
        assert asyncio.get_running_loop().time() == at

    play(scenario)


def test_waiting_to_dial_may_be_the_first_thing_that_a_handler_does() -> None:
    async def scenario(line: Line, network: Network) -> None:
        network.down = True
        await fails(line)
        begun: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def begin() -> None:
            assert asyncio.current_task() is None
            work = line.connect()
            try:
                work.send(None)
                begun.set_result(work)
            except BaseException as error:
                begun.set_exception(error)

        asyncio.get_running_loop().call_soon(begin)
        (await begun).close()

    play(scenario)


def test_a_program_that_has_no_log_is_told_of_failures_by_their_exceptions_alone() -> None:
    with socket.socket() as taken:  # a port where nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    code = (
        "import asyncio, kavka.client as client\n"
        f"try: asyncio.run(client.Pool('{address}').any())\n"
        "except client.KafkaError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"cannot connect to {address}: Connection refused\n", "")

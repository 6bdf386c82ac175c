"""A network between simulated machines: connections keep their order, and nothing else is sure.

Bytes of one connection arrive in order, as TCP has it, and those of several in any. A parting of the network, one way
or both, holds up what is under way until it heals; a process that is gone has its peers told, unless the machine went
with it: then they hear nothing until it is back.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Final

from kavka.client.dial import Transport
from kavka.model.errors import NetworkException
from kavka.net.hangups import HangUps
from kavka.net.pipe import ClientEnd, ServerEnd, pipe
from kavka.net.server import BoundListener, SocketOptions
from kavka.net.session import Session
from kavka.testing.sim.machine import Process, SimMachine
from kavka.testing.sim.world import World

FIRST_FD: Final = 1_000_000
"""Far from the descriptors that the system gives out."""
SLOW_SECONDS: Final = 0.4

Arrival = Callable[[], object]


class Way:
    """One direction of a connection."""

    __slots__ = ("_network", "_queue", "_stuck", "broken", "due", "source", "target", "to")

    def __init__(self, network: Network, source: SimMachine, target: SimMachine, to: Process | None) -> None:
        self._network = network
        self.source = source
        self.target = target
        self.to = to
        """The process at its end, once it is known."""
        self.due = 0.0
        self.broken = False
        self._queue: deque[Arrival] = deque()
        self._stuck = 0

    def __call__(self, arrival: Arrival) -> None:
        """Send something on its way."""
        if not self.broken:
            self._queue.append(arrival)
            self._send()

    def _send(self) -> None:
        world = self._network.world
        self.due = max(self.due, world.now + self._network.delay(self.source, self.target))
        world.at(self.due, self._arrive)

    def _arrive(self) -> None:
        if not self._queue:
            return
        if self._network.parted(self.source, self.target):
            self._stuck += 1
            self._network.stuck[self] = None
            return
        arrival = self._queue.popleft()
        if self.to is None:
            arrival()
        else:
            self.to.deliver(arrival)

    def go_on(self) -> None:
        """Send what was held up."""
        stuck, self._stuck = self._stuck, 0
        for _ in range(stuck):
            self._send()

    def cut(self) -> None:
        """Lose what is under way."""
        self.broken = True
        self._queue.clear()


class Link:
    """A connection, from the dial to the end of both ends."""

    def __init__(self, network: Network, client: Process, target: SimMachine) -> None:
        self.network = network
        self.client = client
        self.server: Process | None = None
        self.to_server = Way(network, client.machine, target, None)
        self.to_client = Way(network, target, client.machine, client)
        self.ends: tuple[ClientEnd, ServerEnd] | None = None

    def lost(self, process: Process) -> None:
        """One of the two processes is gone: the other end hears of it."""
        assert self.ends is not None
        client, server = self.ends
        if process is self.client:
            self.to_client.cut()
            self.to_server(server.hung_up)
        else:
            self.to_server.cut()
            self.to_client(client.ended)

    def reset(self) -> None:
        """Break it in the middle: both ends hear of it, and what is under way is lost."""
        for way in (self.to_server, self.to_client):
            way.cut()
            way.broken = False
        assert self.ends is not None
        client, server = self.ends
        self.to_server(server.hung_up)
        self.to_client(client.ended)


class Accepted:
    """What accepting gives: enough of a socket for a server, and the connection behind it."""

    def __init__(self, link: Link) -> None:
        self.link = link

    def setblocking(self, flag: bool) -> None:
        """It never blocks."""

    def setsockopt(self, *_: object) -> None:
        """It has no options."""

    def close(self) -> None:
        """Refuse the client."""
        if self.link.ends is not None:
            self.link.to_client(self.link.ends[0].ended)


class Listening:
    """A listening socket: clients queue until they are accepted."""

    def __init__(self, network: Network, process: Process, port: int, fd: int) -> None:
        self.process = process
        self.port = port
        self.waiting: deque[Link] = deque()
        self._network = network
        self._fd = fd

    def fileno(self) -> int:
        """A number that no other has."""
        return self._fd

    def knock(self, link: Link) -> None:
        """Somebody wants in."""
        self.waiting.append(link)
        self.process.readable(self._fd)

    def accept(self) -> tuple[Accepted, tuple[str, int]]:
        """The next client; raises BlockingIOError if there is none."""
        if not self.waiting:
            raise BlockingIOError
        link = self.waiting.popleft()
        return Accepted(link), (link.client.machine.address, self._network.next_port())

    def close(self) -> None:
        """Listen no more; who waits is refused."""
        self._network.listening.pop((self.process.machine.address, self.port), None)
        while self.waiting:
            Accepted(self.waiting.popleft()).close()


def carried(loop: asyncio.AbstractEventLoop, sock: Any, hangups: HangUps, session: Session) -> ServerEnd:
    """The transport of an accepted connection."""
    end: ServerEnd = sock.link.ends[1]
    return end


class Network:
    """Who can reach whom, and how fast."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.listening: dict[tuple[str, int], Listening] = {}
        self.machines: dict[str, SimMachine] = {}
        self.links: dict[Link, None] = {}
        self.stuck: dict[Way, None] = {}
        self.latency = (0.0001, 0.002)
        self.slow = 0.0
        self._parted: set[tuple[str, str]] = set()
        self._silent: dict[SimMachine, list[tuple[Link, Process]]] = {}
        self._fds = count(FIRST_FD)
        self._ports = count(40_000)
        world.at_the_end.append(self._forget)

    def _forget(self) -> None:
        for known in (self.listening, self.machines, self.links, self.stuck, self._silent):
            known.clear()

    def machine(self, number: int, address: str, **options: Any) -> SimMachine:
        """A new machine in the network."""
        machine = self.machines[address] = SimMachine(self.world, number, address, **options)
        return machine

    def next_port(self) -> int:
        """A port that no client had."""
        return next(self._ports)

    # -- faults ---------------------------------------------------------------------------

    def delay(self, source: SimMachine, target: SimMachine) -> float:
        """How long something takes that is sent now."""
        chance = self.world.random
        seconds = chance.uniform(*self.latency) if source is not target else 1e-5
        if self.slow and chance.random() < self.slow:
            seconds += chance.uniform(0, SLOW_SECONDS)
        return seconds

    def parted(self, source: SimMachine, target: SimMachine) -> bool:
        """Whether nothing passes."""
        return (source.address, target.address) in self._parted

    def part(self, inside: list[SimMachine], others: list[SimMachine] | None = None, *, one_way: bool = False) -> None:
        """Let nothing pass between these machines and the others, or nothing from them to the others."""
        names = [machine.address for machine in inside]
        outside = self.machines if others is None else [machine.address for machine in others]
        for name in names:
            for other in outside:
                if other not in names:
                    self._parted.add((name, other))
                    if not one_way:
                        self._parted.add((other, name))

    def heal(self) -> None:
        """Let everything pass again, in good time."""
        self._parted.clear()
        self.slow = 0.0
        stuck, self.stuck = self.stuck, {}
        for way in stuck:
            way.go_on()

    def reset_some(self, share: float) -> None:
        """Break connections by chance."""
        for link in list(self.links):
            if self.world.chance(share):
                link.reset()
                self.links.pop(link, None)

    # -- processes ------------------------------------------------------------------------

    def join(self, process: Process) -> None:
        """Have a process's connections end with it."""
        process.closing.append(lambda: self._ended(process))

    def _ended(self, process: Process) -> None:
        for key, listening in list(self.listening.items()):
            if listening.process is process:
                del self.listening[key]
        mine = [link for link in self.links if process in (link.client, link.server)]
        for link in mine:
            del self.links[link]
        if process.silent:
            self._silent.setdefault(process.machine, []).extend((link, process) for link in mine)
        else:
            for link in mine:
                link.lost(process)

    def back(self, machine: SimMachine) -> None:
        """A machine is up again, and knows nothing of the connections that it had."""
        for link, process in self._silent.pop(machine, ()):
            link.lost(process)

    # -- connecting -----------------------------------------------------------------------

    def listen(
        self, process: Process, name: str, host: str, port: int, options: SocketOptions, *, both: bool = True
    ) -> BoundListener:
        """Open a listening socket for a process."""
        sock: Any = Listening(self, process, port, next(self._fds))
        self.listening[process.machine.address, port] = sock
        listening: socket.socket = sock
        return BoundListener(name, host, port, listening, secure=carried)

    def connect(
        self, client: Process, host: str, port: int, receiver: asyncio.BufferedProtocol
    ) -> asyncio.Future[Transport]:
        """Knock at an address."""
        answer: asyncio.Future[Transport] = client.loop.create_future()
        target = self.machines.get(host)
        if target is None:
            raise NetworkException(f"cannot connect to {host}:{port}: there is no such host")
        link = Link(self, client, target)
        link.to_server(partial(self._arrived, link, target, port, receiver, answer))
        return answer

    def _arrived(
        self,
        link: Link,
        target: SimMachine,
        port: int,
        receiver: asyncio.BufferedProtocol,
        answer: asyncio.Future[Transport],
    ) -> None:
        def refused() -> None:
            if not answer.done():
                answer.set_exception(NetworkException(f"cannot connect to {target.address}:{port}: Connection refused"))

        listening = self.listening.get((target.address, port))
        if listening is None:
            if target.process is not None or target not in self._silent:
                link.to_client(refused)
            return
        if not link.client.alive:
            return
        process = link.server = listening.process
        link.to_server.to = process
        ends = link.ends = pipe(receiver, link.to_server, link.to_client, process.loop)
        self.links[link] = None
        client = Dialled(link, ends[0])

        def established() -> None:
            if answer.done():
                client.abort()  # who dialled has given up
            else:
                answer.set_result(client)

        link.to_client(established)
        listening.knock(link)


class Dialled:
    """The client's end of a connection."""

    def __init__(self, link: Link, end: ClientEnd) -> None:
        self._link = link
        self._end = end

    def write(self, data: bytes | bytearray | memoryview, /) -> None:
        """Send bytes on their way."""
        self._link.network.world.note(bytes(data))
        self._end.write(data)

    def abort(self) -> None:
        """Be gone; what was written before still arrives."""
        self._end.abort()


class SimDial:
    """How a process of the simulated world connects."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._process = process

    async def dial(self, host: str, port: int, receiver: asyncio.BufferedProtocol) -> Transport:
        """Connect to a simulated machine."""
        return await self._network.connect(self._process, host, port, receiver)

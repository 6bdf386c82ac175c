"""A network that delays, loses, reorders and parts: what one node asks another, and the answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final, Protocol

from kavka.testing.sim.world import World

Answer = Callable[[Any], None]
"""Takes the answer to a request; None says that nobody listens there."""

SLOW_MS: Final = 400


class Host(Protocol):
    """A node as the network sees it."""

    id: int
    incarnation: int
    alive: bool
    paused: bool

    def serve(self, sender: int, kind: str, request: Any, answer: Answer) -> None:
        """Take a request; the answer may come later, or never."""


class Network:
    """Who can reach whom, and how fast."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.hosts: dict[int, Host] = {}
        self.parted: set[tuple[int, int]] = set()
        self.loss = 0.0
        self.delay_ms = (0, 3)
        self.slow = 0.0
        self._unanswered: dict[int, dict[object, Callable[[], None]]] = defaultdict(dict)
        """By node: how those whose requests have reached it hear that it has gone."""

    def part(self, ones: set[int], *, one_way: bool = False) -> None:
        """Let nothing pass between these nodes and the others, or only nothing from them."""
        for inside in ones:
            for outside in self.hosts:
                if outside not in ones:
                    self.parted.add((inside, outside))
                    if not one_way:
                        self.parted.add((outside, inside))

    def heal(self) -> None:
        """Let everything pass, in good time."""
        self.parted.clear()
        self.loss = self.slow = 0.0

    def call(self, sender: Host, to: int, kind: str, request: Any, answer: Answer) -> None:
        """Ask another node. The answer reaches only the life of the sender that asked."""
        life = sender.incarnation
        unanswered, this = self._unanswered[to], object()

        def back(reply: Any) -> None:
            if unanswered.pop(this, None) is not None:
                self._carry(to, sender.id, deliver, reply)

        def deliver(reply: Any) -> None:
            if sender.alive and sender.incarnation == life:
                self._awake(sender, life, answer, reply)

        def arrive() -> None:
            host = self.hosts.get(to)
            if host is None or not host.alive:
                self._carry(to, sender.id, deliver, None)  # refused: nobody listens
            else:
                unanswered[this] = lambda: back(None)
                self._awake(host, host.incarnation, host.serve, sender.id, kind, request, back)

        self._carry(sender.id, to, arrive)

    def died(self, host: int) -> None:
        """A process has ended: its connections close, and whoever waits for an answer hears that there will be none."""
        for close in list(self._unanswered[host].values()):
            close()

    def _awake(self, host: Host, life: int, action: Callable[..., None], *arguments: Any) -> None:
        """What reaches a stopped process waits in its socket."""
        if not host.alive or host.incarnation != life:
            return
        if host.paused:
            self._world.after(50, self._awake, host, life, action, *arguments)
        else:
            action(*arguments)

    def _carry(self, sender: int, to: int, action: Callable[..., None], *arguments: Any) -> None:
        world = self._world
        if sender != to:
            if (sender, to) in self.parted or (self.loss and world.chance(self.loss)):
                return
            low, high = self.delay_ms
            delay = world.between(low, high)
            if self.slow and world.chance(self.slow):
                delay += world.between(0, SLOW_MS)
            world.after(delay, action, *arguments)
        else:
            world.after(0, action, *arguments)

"""The producer ids this node hands out, from blocks that the controller allocates."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kavka.controller.machine import Controller
from kavka.controller.producer_ids import ProducerIdBlock
from kavka.model.errors import raise_for
from kavka.model.transition import Transition
from kavka.quorum.channel import ControllerChannel
from kavka.quorum.controller_loop import ControllerLoop

Allocate = Callable[[], Awaitable[ProducerIdBlock]]


class ProducerIds:
    """Hands out each id once; what is left of a block when the node stops is never used."""

    def __init__(self, loop: ControllerLoop, allocate: Allocate | None = None) -> None:
        """`allocate` asks for a block where this node may not be the controller."""
        self._loop = loop
        self._allocate = allocate or self._allocate_here
        self._next = 0
        self._left = 0
        self._refill = asyncio.Lock()

    async def next(self) -> int:
        """A producer id that nobody had before."""
        while not self._left:
            async with self._refill:
                if not self._left:
                    block = await self._allocate()
                    self._next, self._left = block.first, block.size
        self._left -= 1
        self._next += 1
        return self._next - 1

    async def _allocate_here(self) -> ProducerIdBlock:
        return await self._loop.submit(self._decide)

    def _decide(self, machine: Controller, _: int) -> Transition[ProducerIdBlock]:
        broker = machine.image.cluster.brokers.get(machine.node_id)
        return machine.allocate_producer_ids(machine.node_id, -1 if broker is None else broker.epoch)


class AllocateProducerIds:
    """Asks the active controller for blocks of producer ids."""

    def __init__(self, node_id: int, broker_epoch: Callable[[], int], channel: ControllerChannel) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._channel = channel

    async def __call__(self) -> ProducerIdBlock:
        """A block that is this broker's alone; raises KafkaError."""
        from kavka.protocol.schemas.allocate_producer_ids import AllocateProducerIdsRequest

        answer = await self._channel.call(
            AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=self._broker_epoch())
        )
        raise_for(answer.error_code)
        return ProducerIdBlock(answer.producer_id_start, answer.producer_id_len)

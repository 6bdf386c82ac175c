"""Producer ids: blocks that another node, the controller, gives out."""

import asyncio
from types import SimpleNamespace

import pytest

from kavka.controller.producer_ids import ProducerIdBlock
from kavka.model.errors import StaleBrokerEpoch
from kavka.protocol.schemas.allocate_producer_ids import AllocateProducerIdsResponse
from kavka.quorum.producer_ids import AllocateProducerIds, ProducerIds


class Channel:
    """Gives out blocks of two ids."""

    def __init__(self, code=0):
        self.code = code
        self.asked = []

    async def call(self, request):
        self.asked.append((request.broker_id, request.broker_epoch))
        await asyncio.sleep(0)
        first = 10 * len(self.asked)
        return AllocateProducerIdsResponse(error_code=self.code, producer_id_start=first, producer_id_len=2)


def test_a_block_is_asked_for_in_the_name_of_the_broker_and_used_up_before_the_next():
    channel = Channel()
    allocate = AllocateProducerIds(3, lambda: 77, channel)

    async def work():
        ids = ProducerIds(SimpleNamespace(), allocate)
        assert await asyncio.gather(*(ids.next() for _ in range(3))) == [10, 11, 20]
        assert channel.asked == [(3, 77)] * 2
        assert await allocate() == ProducerIdBlock(30, 2)

    asyncio.run(work())


def test_a_refusal_is_its_error():
    with pytest.raises(StaleBrokerEpoch):
        asyncio.run(AllocateProducerIds(3, lambda: 77, Channel(StaleBrokerEpoch.code))())

"""Which producer ids brokers may hand out: blocks of a thousand, each given once."""

from __future__ import annotations

from typing import Final, NamedTuple

from kavka.controller.brokers import check_epoch
from kavka.metadata.image import MetadataImage
from kavka.metadata.records.settings import ProducerIdsRecord
from kavka.model.errors import UnknownServerError
from kavka.model.transition import Transition

BLOCK_SIZE: Final = 1000
_MAX_ID: Final = (1 << 63) - 1


class ProducerIdBlock(NamedTuple):
    """Ids from `first`, `size` of them."""

    first: int
    size: int


def allocate(image: MetadataImage, broker_id: int, broker_epoch: int) -> Transition[ProducerIdBlock]:
    """The next block, for a broker that is registered at this epoch."""
    check_epoch(image.cluster, broker_id, broker_epoch)
    first = image.next_producer_id
    if first > _MAX_ID - BLOCK_SIZE:
        raise UnknownServerError("all producer ids are used up")
    record = ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first + BLOCK_SIZE)
    return Transition(ProducerIdBlock(first, BLOCK_SIZE), (record,))

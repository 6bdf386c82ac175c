"""Produce requests that are served later than they came, and hold back the requests behind them until then."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from kavka.broker.slots import OneSlot, Slots
from kavka.kernels.frames import parse_produce
from kavka.kernels.layout import ProduceFields, ProduceTopic
from kavka.model.errors import KafkaError
from kavka.pacing.lane import Lane, LaneClass
from kavka.records.framing import Refused
from kavka.replica.judging import PART_BYTES, Judging, Schemas

logger = logging.getLogger(__name__)


class DelayedProduce(NamedTuple):
    """A request that waits, with all that its answer takes."""

    place: OneSlot
    asked: ProduceFields
    size: int
    version: int
    correlation_id: int
    client_id: str

    @property
    def acks(self) -> int:
        """How many replicas the producer waits for."""
        _, acks, _, _ = self.asked
        return acks

    @property
    def topics(self) -> list[ProduceTopic]:
        """The batches by topic and partition."""
        _, _, _, topics = self.asked
        return topics


def keep(connection: Slots, request: memoryview, version: int, correlation_id: int, client_id: str) -> DelayedProduce:
    """Keep a copy of a request, as the connection goes on to use its buffer."""
    copy = memoryview(bytes(request))
    place = OneSlot(connection.open_slot(exclusive=True), connection.session)
    connection.serve_large(len(copy))
    return DelayedProduce(
        place, parse_produce(copy, 0, len(copy), version), len(copy), version, correlation_id, client_id
    )


def in_parts(
    delayed: DelayedProduce,
    judging: Judging | None,
    lane: Lane,
    schemas: Callable[[], Schemas | None] | None,
    then: Callable[[], None],
) -> None:
    """Call back when everything is judged: at once if there is little, else in turns of the lane.

    It waits meanwhile for what is known of schemas.
    """
    slot = delayed.place.slot

    def go_on() -> None:
        if judging is None or judging.run(PART_BYTES):
            try:
                then()
            except Exception as error:
                if not isinstance(error, KafkaError):  # nothing of one request may reach those who ask for all
                    logger.exception("a delayed Produce failed")
                slot.abort()
        elif slot.closed:
            return
        elif (unknown := judging.unknown) is not None:
            assert schemas is not None
            registry = schemas()
            assert registry is not None  # it was there when the batch was first looked at
            registry.ask(unknown, told)
        else:
            lane.later(LaneClass.LARGE, go_on)

    def told(found: Refused | KafkaError) -> None:
        assert judging is not None
        judging.told(found)
        lane.later(LaneClass.LARGE, go_on)

    go_on()

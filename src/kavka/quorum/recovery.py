"""Asks brokers for their replicas' log end offsets, while this node is the active controller and partitions need it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from kavka.controller.recovery import ASKED_FOR_WINDOW_MS, Key, LogInfo
from kavka.metadata.image.topics import NO_LEADER
from kavka.model.errors import KafkaError, NotController
from kavka.pacing.turn import Turn
from kavka.protocol.schemas.get_replica_log_info import (
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    TopicPartitions,
)
from kavka.quorum.controller_loop import ControllerLoop

logger = logging.getLogger(__name__)

ROUND_SECONDS: Final = 0.5
ROUNDS_ASKED_FOR: Final = int(ASKED_FOR_WINDOW_MS / 1000 / ROUND_SECONDS) + 1
MOST_AT_ONCE: Final = 1_000
"""How many partitions a broker is asked about at a time."""

Ask = Callable[[int, Any], Awaitable[Any]]
"""A broker's answer to a request; raises KafkaError."""


class UncleanRecovery:
    """Recovers partitions without a leader by the longest log, where their topics ask for that (KIP-966)."""

    def __init__(self, controller: ControllerLoop, ask: Ask) -> None:
        self._controller = controller
        self._ask = ask

    async def run(self) -> None:
        """Do so until cancelled."""
        while True:
            await asyncio.sleep(ROUND_SECONDS)
            if not self._controller.is_active:
                continue
            try:
                await self.round()
            except NotController:
                pass  # another goes on with it
            except KafkaError as error:
                logger.warning("unclean recovery failed: %s", error)

    async def elect(self, wanted: Sequence[tuple[str, Sequence[int]]] | None) -> set[tuple[str, int]]:
        """Elect the longest log in some, or (None) all, partitions without a leader; those that got one."""
        by_name, turn = self._controller.image.topics.by_name, Turn()
        everything = ((topic.name, topic.partitions) for topic in by_name.values())
        left: dict[Key, tuple[str, int]] = {}
        for name, indexes in everything if wanted is None else wanted:
            topic = by_name.get(name)
            if topic is None:
                continue
            for index in indexes:
                partition = topic.partitions.get(index)
                if partition is not None and partition.leader == NO_LEADER:
                    left[topic.id, index] = name, index
                await turn.breathe()
        done: set[tuple[str, int]] = set()
        for _ in range(ROUNDS_ASKED_FOR):
            if not left:
                break
            await self.round(left.keys())
            for key in list(left):
                topic = self._controller.image.topics.by_id.get(key[0])
                if topic is None or topic.partitions[key[1]].leader != NO_LEADER:
                    done.add(left.pop(key))
            if left:
                await asyncio.sleep(ROUND_SECONDS)
        return done

    async def round(self, asked_for: Collection[Key] = ()) -> None:
        """Ask all who have not answered, and let the controller decide on what is known then."""
        questions = await self._controller.submit(lambda machine, now_ms: machine.recovery_questions(asked_for, now_ms))
        if questions is None:
            return
        answers = await asyncio.gather(*(self._asked(broker, keys) for broker, keys in questions.items()))
        found = {broker: infos for broker, infos in zip(questions, answers, strict=True) if infos}
        await self._controller.submit(lambda machine, now_ms: machine.recover(found, now_ms))

    async def _asked(self, broker: int, keys: list[Key]) -> dict[Key, LogInfo]:
        topics = [
            TopicPartitions(topic_id=topic_id, partitions=[index for _, index in topic_keys])
            for topic_id, topic_keys in groupby(sorted(keys[:MOST_AT_ONCE]), key=itemgetter(0))
        ]
        try:
            answer: GetReplicaLogInfoResponse = await self._ask(
                broker, GetReplicaLogInfoRequest(topic_partitions=topics)
            )
        except KafkaError as error:
            logger.debug("GetReplicaLogInfo from broker %d failed: %s", broker, error)
            return {}
        return {
            (topic.topic_id, row.partition): LogInfo(
                row.last_written_leader_epoch, row.log_end_offset, row.current_leader_epoch
            )
            for topic in answer.topic_partition_log_info_list
            for row in topic.partition_log_info
            if row.error_code == 0
        }

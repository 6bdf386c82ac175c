"""Produce: v3-13.

Behaviour:  batches go to the log as they came; acks=0 has no answer, and an error closes the connection instead.
            The answer waits for the fsync that flush.messages asks for, and with acks=all for the in-sync replicas; the
            first batch of a transaction for its coordinator (KIP-890), and of a checked schema for the registry.
Errors:     one per partition, base offset -1; a bad acks value is INVALID_REQUIRED_ACKS for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kavka.broker.delayed_produce import DelayedProduce, in_parts, keep
from kavka.broker.rights import WriteRights, may_write
from kavka.broker.slots import Slots
from kavka.kernels.frames import encode_produce_response, encode_produced, parse_produce, parse_single
from kavka.kernels.layout import ProduceFields
from kavka.model.clock import Clock
from kavka.model.errors import InvalidRequiredAcks, KafkaError, TransactionalIdAuthorizationFailed
from kavka.model.types import Piece
from kavka.net.responses import PENDING, Pending, Reply
from kavka.pacing.lane import Lane
from kavka.replica.judging import AT_ONCE_BYTES, Judging, Schemas
from kavka.replica.manager import ReplicaManager
from kavka.replica.producing import Appended, PendingProduce, Producing, Rows, has_transactional
from kavka.replica.syncing import Syncer
from kavka.replica.waiting import Purgatory
from kavka.runtime.versions import knows_produce

if TYPE_CHECKING:  # imported with the coordinators, after the start
    from kavka.runtime.verification import Verification, VerificationResult


class ProduceHandler:
    """Serves Produce straight from the frame."""

    def __init__(
        self,
        replicas: ReplicaManager,
        syncer: Syncer,
        clock: Clock,
        purgatory: Purgatory,
        lane: Lane,
        verification: Callable[[], Verification] | None = None,
        schemas: Callable[[], Schemas | None] | None = None,
    ) -> None:
        self._replicas = replicas
        self._producing = Producing(replicas, syncer, clock, purgatory, schemas)
        self._append = self._producing.append
        self._held = replicas.held
        self._now_ms = clock.now_ms
        self._lane = lane
        self._verification = verification

    def __call__(
        self,
        connection: Slots,
        buffer: memoryview,
        pos: int,
        end: int,
        version: int,
        correlation_id: int,
        client_id: str,
    ) -> Reply:
        """Append what the frame carries and answer."""
        single = parse_single(buffer, pos, end, version)
        if single is not None:
            acks, topic, index, start, stop = single
            partition = self._held(topic, index)
            guard = connection.session.guard
            if (
                partition is not None
                and (acks == -1 or acks == 1)
                and (guard is None or may_write(guard, partition.topic_partition.topic))
            ):
                try:
                    info = partition.append_plain(buffer, start, stop, now_ms := self._now_ms())
                except Exception as error:
                    refusal = self._producing.refuse(topic, partition, error, now_ms)
                    return self._encode(version, correlation_id, refusal, connection.session.listener)
                if info is not None:
                    return encode_produced(version, correlation_id, topic, index, info[0], info[2], info[4])
        transactional_id, acks, _, topics = asked = parse_produce(buffer, pos, end, version)
        refused: KafkaError | None = None
        rights = WriteRights.of(connection.session.guard)
        if not -1 <= acks <= 1:
            refused = InvalidRequiredAcks(f"acks={acks}: only -1, 0 and 1 are known")
        elif rights is not None and not rights.may_use(transactional_id):
            refused = TransactionalIdAuthorizationFailed()
        elif transactional_id is not None and self._verification is not None:
            try:
                begun = (verification := self._verification()).begin(topics, knows_produce(version))
            except KafkaError as error:
                refused = error
            else:
                if begun is not None:
                    judge = partial(self._judge, keep(connection, buffer[pos:end], version, correlation_id, client_id))
                    verification.ask(transactional_id, begun, knows_produce(version), judge)
                    return PENDING
        elif transactional_id is None and has_transactional(topics):
            refused = TransactionalIdAuthorizationFailed("transactional records without a transactional id")
        judging = self._producing.judge(topics, version, end - pos) if refused is None else None
        if judging is not None and not judging.run(AT_ONCE_BYTES):
            self._judge(keep(connection, buffer[pos:end], version, correlation_id, client_id), None)
            return PENDING
        rows, failed, due, behind = appended = self._append(topics, acks, version, client_id, refused, rights, judging)
        if acks and failed is None and due is None and behind is None:
            return encode_produce_response(version, correlation_id, rows)
        return self._finish(connection, asked, version, correlation_id, appended)

    def _judge(self, delayed: DelayedProduce, verdict: VerificationResult | None) -> None:
        """Append once all that is compressed is judged, a part at a time."""
        judging = self._producing.judge(delayed.topics, delayed.version, delayed.size)
        in_parts(delayed, judging, self._lane, self._producing.schemas, lambda: self._serve(delayed, verdict, judging))

    def _serve(self, delayed: DelayedProduce, verdict: VerificationResult | None, judging: Judging | None) -> None:
        """Append a delayed request's records and answer."""
        place, asked, _, version, correlation_id, client_id = delayed
        rights = WriteRights.of(place.session.guard, verdict) or verdict
        appended = self._append(delayed.topics, delayed.acks, version, client_id, None, rights, judging)
        reply = self._finish(place, asked, version, correlation_id, appended)
        if reply is not PENDING:
            place.slot.answer(reply)

    def _finish(
        self, connection: Slots, asked: ProduceFields, version: int, correlation_id: int, appended: Appended
    ) -> list[Piece] | Pending | None:
        """Answer what was appended, now or when it is on the disk and on the replicas; or not at all (acks=0)."""
        rows, failed, due, behind = appended
        _, acks, timeout_ms, _ = asked
        if acks == 0:
            if due:
                self._producing.force(due)
            if failed is not None:
                raise failed  # closes the connection: the only way to tell a producer that does not listen
            return None
        if not due and not behind:
            return self._encode(version, correlation_id, rows, connection.session.listener)
        slot, listener = connection.open_slot(exclusive=False), connection.session.listener
        waits = PendingProduce(timeout_ms, rows, due, behind)
        self._producing.settle(waits, lambda: slot.answer(self._encode(version, correlation_id, rows, listener)))
        return PENDING

    def _encode(self, version: int, correlation_id: int, rows: Rows, listener: str) -> list[Piece]:
        """The response, with where the leaders are that a producer is sent to (KIP-951)."""
        leaders = [row[7][0] for _, out in rows for row in out if len(row) > 5 and row[7] is not None]
        endpoints = self._replicas.endpoints(leaders, listener)
        return [encode_produce_response(version, correlation_id, rows, 0, endpoints)]

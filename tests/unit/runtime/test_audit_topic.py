"""Writing the audit log to a topic: what it does about errors that nobody thought of."""

from __future__ import annotations

import asyncio

import pytest

from kavka.client.pool import Pool
from kavka.model.clock import ManualClock
from kavka.runtime import audit_topic
from kavka.runtime.audit_topic import AuditTopic, Reached


class OneEntry:
    id = "log"
    next = 2

    def place_of(self, number: int) -> int:
        return 0

    def read(self, place: int, max_bytes: int) -> tuple[list[tuple[int, bytes]], int]:
        return [], place


def test_an_error_that_nobody_thought_of_is_told_and_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(audit_topic, "FIRST_WAIT_S", 0.001)
    again = asyncio.Event()

    async def open_topic() -> int:
        if topic.failures:
            again.set()
        raise ZeroDivisionError

    async def forced() -> None: ...

    async def remember(reached: Reached) -> None: ...

    pool = Pool(["127.0.0.1:1"], client_id="audit")
    topic = AuditTopic(OneEntry(), pool, 1, Reached(0, 0), forced, remember, open_topic, ManualClock())

    async def tried_twice() -> None:
        task = asyncio.create_task(topic.run())
        await asyncio.wait({task, asyncio.create_task(again.wait())}, return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(tried_twice())
    assert again.is_set()
    assert "ZeroDivisionError" in caplog.text

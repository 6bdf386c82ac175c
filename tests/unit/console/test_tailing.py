"""The stream of events of a live tail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from kavka.console.tailing import EventStream


def test_a_tail_is_given_back_even_if_it_never_began() -> None:
    over: list[bool] = []

    async def events() -> AsyncGenerator[dict[str, Any], None]:
        yield {"records": [], "skipped": 0}

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def gone(message: Any) -> None:
        raise OSError("the browser is gone")

    async def taken(message: Any) -> None:
        await asyncio.sleep(0)

    with pytest.raises(OSError, match="is gone"):
        asyncio.run(EventStream(events(), lambda: over.append(True), asyncio.Event())({}, receive, gone))
    assert over == [True]
    asyncio.run(EventStream(events(), lambda: over.append(True), asyncio.Event())({}, receive, taken))
    assert over == [True, True]

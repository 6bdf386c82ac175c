"""The console's process, as its node has it."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys

import pytest

from kavka.console import process


def test_a_process_that_cannot_be_started_is_tried_again_and_the_node_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(sys, "executable", "/there/is/no/python")

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            running = asyncio.ensure_future(process.ConsoleProcess(listening, {}).run())
            async with asyncio.timeout(20):
                while len(caplog.messages) < 2 and not running.done():
                    await asyncio.sleep(0.01)
            assert not running.done()
            running.cancel()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert "the console's process failed: " in caplog.messages[0]
    assert "it is started again in 0.02 s" in caplog.messages[1]

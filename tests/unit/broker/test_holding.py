"""Requests that hold the loop are counted and named."""

from __future__ import annotations

import logging
from time import monotonic

import pytest

from kavka.broker.holding import HELD_SECONDS, Holding
from kavka.net.session import Session
from kavka.protocol.registry import ApiKey

SESSION = Session(1, "PLAINTEXT", "10.0.0.7", 999)


def test_who_holds_the_loop_is_named_once_and_counted_each_time(caplog: pytest.LogCaptureFixture) -> None:
    holding, began = Holding(), monotonic()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            holding.note(ApiKey.METADATA, 12, "greedy", SESSION, began - 2 * HELD_SECONDS)
    assert holding.counts == {ApiKey.METADATA: 3}
    assert len(caplog.records) == 1
    assert "Metadata v12 of client 'greedy' at 10.0.0.7" in caplog.text
    assert holding.since(began) is holding.last


def test_who_is_quick_is_not() -> None:
    holding, began = Holding(), monotonic()
    holding.note(ApiKey.METADATA, 12, "modest", SESSION, began)
    assert not holding.counts
    assert holding.since(began) is None

"""SaslHandshake where no log-in is possible."""

from __future__ import annotations

import asyncio

from kavka.broker.context import Context
from kavka.broker.handlers.sasl_handshake import sasl_handshake
from kavka.net.session import Session
from kavka.protocol.schemas.sasl_handshake import SaslHandshakeRequest


def test_it_is_not_the_time_to_log_in() -> None:
    ctx = Context(17, 1, "test", Session(1, "PLAINTEXT", "127.0.0.1", 50_000), 0)
    answer = asyncio.run(sasl_handshake(SaslHandshakeRequest(mechanism="PLAIN"), ctx))
    assert (answer.error_code, answer.mechanisms) == (34, [])

"""SaslAuthenticate where no log-in is possible."""

from __future__ import annotations

import asyncio

from kavka.broker.context import Context
from kavka.broker.handlers.sasl_authenticate import WORDS, sasl_authenticate
from kavka.net.session import Session
from kavka.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest


def test_it_is_not_the_time_to_log_in() -> None:
    ctx = Context(36, 2, "test", Session(1, "PLAINTEXT", "127.0.0.1", 50_000), 0)
    answer = asyncio.run(sasl_authenticate(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), ctx))
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (34, WORDS, b"")

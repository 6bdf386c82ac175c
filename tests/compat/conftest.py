"""What the client tests share: a node (fixture `kavka` of kavka.testing), topic names and records to write."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


@dataclass(frozen=True)
class Sample:
    """A record to write and to find again."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


@pytest.fixture
def topic_name() -> str:
    """A topic name that nobody else has."""
    return f"compat-{os.urandom(6).hex()}"


@pytest.fixture(scope="session")
def samples() -> list[Sample]:
    """A hundred records, a second apart and an hour old: with and without keys and headers, and tombstones."""
    first = int(time.time()) * 1000 - 3_600_000
    return [
        Sample(
            key=None if i % 5 == 4 else f"key-{i}".encode(),
            value=None if i % 10 == 3 else f"value-{i}".encode() * (1 + i % 9),
            headers=(("number", str(i).encode()), ("empty", b"")) if i % 3 == 0 else (),
            timestamp=first + i * 1000,
        )
        for i in range(100)
    ]

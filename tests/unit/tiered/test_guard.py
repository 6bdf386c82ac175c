"""Calls to a store end in time, are tried again where that may help, and fail only with typed errors."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.unit.tiered.stored import at_once, guarded, run

from kavka.testing.faulty_store import Fault, FaultyStore
from kavka.tiered.objects.base import (
    Content,
    ObjectNotFound,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreTimedOut,
    StoreUnavailable,
)
from kavka.tiered.objects.guard import GuardedStore, StoreLimits
from kavka.tiered.objects.local import LocalStore


@pytest.fixture
def faulty(tmp_path: Path) -> FaultyStore:
    store = FaultyStore(LocalStore(str(tmp_path), ThreadPoolExecutor(2)))
    run(lambda: store.put("a/b", Content.of(b"0123456789")))
    store.calls.clear()
    return store


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.PANICS, Fault.LATE])
def test_what_may_pass_is_tried_again(faulty: FaultyStore, fault: Fault) -> None:
    faulty.script("read", fault, fault)
    assert run(lambda: guarded(faulty).read("a/b", 2, 3)) == b"234"
    assert faulty.calls["read"] == 3


@pytest.mark.parametrize(
    ("fault", "error", "calls"),
    [
        (Fault.UNAVAILABLE, StoreUnavailable, 3),
        (Fault.PANICS, StoreUnavailable, 3),
        (Fault.REFUSED, StoreRefused, 1),
        (Fault.FULL, StoreFull, 1),
    ],
)
def test_what_does_not_pass_is_a_typed_error(
    faulty: FaultyStore, fault: Fault, error: type[StoreError], calls: int
) -> None:
    faulty.script("head", *[fault] * 9)
    with pytest.raises(error):
        run(lambda: guarded(faulty, attempts=3).head("a/b"))
    assert faulty.calls["head"] == calls


@pytest.mark.parametrize("operation", ["put", "read", "head", "list", "delete"])
def test_a_call_that_hangs_ends_in_time(faulty: FaultyStore, operation: str) -> None:
    store = guarded(faulty, call_s=0.01, attempts=2)
    calls = {
        "put": lambda: store.put("a/c", Content.of(b"")),
        "read": lambda: store.read("a/b", 0, 1),
        "head": lambda: store.head("a/b"),
        "list": lambda: store.list_page("", ""),
        "delete": lambda: store.delete(["a/b"]),
    }
    faulty.script(operation, Fault.HANGS, Fault.HANGS)
    with pytest.raises(StoreTimedOut):
        run(calls[operation])
    assert faulty.calls[operation] == 2


def test_a_disk_that_hangs_holds_only_its_thread(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "stuck")  # opening it waits for a writer, as a mount whose server is gone waits
    (tmp_path / "a" / "fine").write_bytes(b"fine")

    async def work() -> None:
        store = guarded(LocalStore(str(tmp_path), threads), call_s=0.05, attempts=1)
        with pytest.raises(StoreTimedOut):
            await store.read("a/stuck", 0, 1)
        assert await guarded(LocalStore(str(tmp_path), threads)).read("a/fine", 0, 4) == b"fine"

    with ThreadPoolExecutor(2) as threads:
        try:
            run(work)
        finally:
            os.close(os.open(tmp_path / "a" / "stuck", os.O_RDWR))  # lets the thread go


def test_the_time_limit_of_an_upload_grows_with_its_size(faulty: FaultyStore) -> None:
    async def slowly() -> object:
        yield b"x" * 10
        await asyncio.sleep(0.2)
        yield b"y" * 10

    async def never() -> object:
        yield b"x" * 10
        await asyncio.get_running_loop().create_future()

    store = GuardedStore(faulty, StoreLimits(call_s=0.05, put_bytes_per_s=1, attempts=1), sleep=at_once)
    assert run(lambda: store.put("a/slow", Content(20, slowly))) == 20  # type: ignore[arg-type]
    with pytest.raises(StoreTimedOut):
        run(lambda: store.put("a/slow", Content(0, never)))  # type: ignore[arg-type]


def test_waits_between_attempts_grow_up_to_a_limit(faulty: FaultyStore) -> None:
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    limits = StoreLimits(attempts=6, backoff_s=1, backoff_max_s=5)
    store = GuardedStore(faulty, limits, sleep=note, draw=lambda low, high: high)
    faulty.script("head", *[Fault.UNAVAILABLE] * 6)
    with pytest.raises(StoreUnavailable):
        run(lambda: store.head("a/b"))
    assert waits == [1, 2, 4, 5, 5]


def test_an_error_that_is_no_store_error_is_not_let_out(faulty: FaultyStore) -> None:
    async def breaks() -> object:
        yield b"x"
        raise ZeroDivisionError

    with pytest.raises(StoreUnavailable, match="ZeroDivisionError"):
        run(lambda: guarded(faulty, attempts=1).put("a/c", Content(1, breaks)))  # type: ignore[arg-type]
    with pytest.raises(ObjectNotFound):
        run(lambda: faulty.head("a/c"))


def test_whoever_is_cancelled_is_cancelled(faulty: FaultyStore) -> None:
    async def cancelled() -> None:
        faulty.script("head", Fault.HANGS)
        task = asyncio.ensure_future(guarded(faulty).head("a/b"))
        while not faulty.calls["head"]:
            await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        run(cancelled)
    assert faulty.calls["head"] == 1

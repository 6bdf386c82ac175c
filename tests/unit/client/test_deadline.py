"""Time limits in what begins inside its own task, inside another one, and outside of any."""

from __future__ import annotations

import asyncio

import pytest

from kavka.client.connector import Connector
from kavka.client.deadline import within


async def wait_too_long() -> str:
    try:
        async with within(0.001):
            await asyncio.Event().wait()
    except TimeoutError:
        return "late"
    return "done"


async def resume(work, first):
    """Go on in a task with what was stepped once outside of any, as the dispatcher does."""

    class Rest:
        def __await__(self):
            yield first
            return (yield from work.__await__())

    return await Rest()


def test_a_limit_holds_in_a_task():
    assert asyncio.run(wait_too_long()) == "late"


def test_a_limit_holds_in_what_was_begun_outside_of_any_task():
    async def scenario():
        loop, found = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

        def begin():
            assert asyncio.current_task() is None
            work = wait_too_long()
            first = work.send(None)
            found.set_result((work, first))

        loop.call_soon(begin)
        return await asyncio.create_task(resume(*await found))

    assert asyncio.run(scenario()) == "late"


def test_a_limit_holds_in_what_was_begun_by_another_task():
    async def scenario():
        async def begin():
            work = wait_too_long()
            return work, work.send(None)

        return await asyncio.create_task(resume(*await asyncio.create_task(begin())))

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == "late"


def test_connecting_may_be_the_first_thing_that_a_handler_does():
    class Silent:
        async def dial(self, host, port, receiver):
            await asyncio.Event().wait()

    async def scenario():
        begun = asyncio.get_running_loop().create_future()

        def begin():
            work = Connector(Silent()).connect("broker", 9092)
            try:
                work.send(None)
                begun.set_result(work)
            except BaseException as error:
                begun.set_exception(error)

        asyncio.get_running_loop().call_soon(begin)
        (await begun).close()

    asyncio.run(scenario())


def test_without_a_limit_there_is_none():
    async def scenario():
        async with within(None):
            await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            async with within(0):
                await asyncio.sleep(1)

    asyncio.run(scenario())

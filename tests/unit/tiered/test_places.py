"""Room for so many at a time, a number that changes while some wait."""

from __future__ import annotations

import asyncio

from kavka.tiered.chunk_loader import Places


def test_more_get_in_as_soon_as_there_is_room_for_more_and_nobody_takes_the_place_of_who_gave_up() -> None:
    async def test() -> None:
        most = 1
        places = Places(lambda: most)
        inside: list[str] = []
        ends = {name: asyncio.Event() for name in "abcde"}

        async def work(name: str) -> None:
            async with places:
                inside.append(name)
                await ends[name].wait()
                inside.remove(name)

        async def settled() -> None:
            for _ in range(5):
                await asyncio.sleep(0)

        tasks = {name: asyncio.ensure_future(work(name)) for name in "abcde"}
        await settled()
        assert (inside, places.full) == (["a"], True)
        tasks["b"].cancel()
        most = 2
        ends["a"].set()
        await settled()
        assert inside == ["c", "d"]
        ends["c"].set()
        tasks["e"].cancel()  # at the moment when it is its turn
        await settled()
        assert (inside, places.full) == (["d"], False)
        ends["d"].set()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        assert not inside

    asyncio.run(test())

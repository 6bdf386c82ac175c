"""A shard: what is decided is written together, answered when committed, and forgotten when it cannot be written."""

from __future__ import annotations

import asyncio

import pytest
from played import Played, turns

from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import EMPTY
from kavka.model.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedInstanceId,
    IllegalGeneration,
    KafkaStorageError,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    UnknownServerError,
)
from kavka.model.transition import PARKED, Answer, CancelTimer, Divisible, SetTimer, Transition
from kavka.runtime.shard import CoordinatorState


@pytest.fixture
def played(play, clock):
    """Runs a scenario with a loaded shard."""

    def run(scenario, linger_ms=-1):
        async def whole():
            return await scenario(Played(clock, linger_ms))

        return play(whole())

    return run


async def tasks(*work):
    """Start some requests, in order."""
    found = [asyncio.ensure_future(one) for one in work]
    await asyncio.sleep(0)
    return found


class TestWriting:
    def test_a_request_is_answered_when_its_records_are_in_the_log(self, played):
        async def scenario(world):
            assert await world.write("a", "b", reply=7) == 7
            assert world.port.values == ["a", "b"]
            assert world.machine.seen == [(0, "a"), (1, "b")]

        played(scenario)

    def test_a_request_without_records_is_answered_without_a_turn_of_the_loop(self, played):
        async def scenario(world):
            request = world.read()
            with pytest.raises(StopIteration) as stopped:
                request.send(None)
            assert stopped.value.value == []

        played(scenario)

    def test_requests_of_one_turn_are_written_as_one_batch(self, played):
        async def scenario(world):
            answers = await asyncio.gather(world.write("a"), world.write("b", "c"), world.read())
            assert answers == ["ok", "ok", ["a", "b", "c"]]
            assert len(world.port.batches) == 1
            assert world.machine.seen == [(0, "a"), (1, "b"), (2, "c")]

        played(scenario)

    def test_a_batch_is_not_made_larger_than_the_topic_allows(self, played):
        async def scenario(world):
            world.port.max_batch_bytes = 500
            await asyncio.gather(*(world.write("x" * 100, "y" * 100) for _ in range(4)))
            assert len(world.port.batches) == 4
            assert all(len(batch) <= 500 for batch in world.port.batches)

        played(scenario)

    def test_records_of_one_decision_are_never_parted_unless_they_may_be(self, played):
        async def scenario(world):
            world.port.max_batch_bytes = 500
            words = tuple(f"{number:0100}" for number in range(8))
            await world.write(*words[:5])
            assert len(world.port.batches) == 1
            await world.shard.submit(lambda machine, now_ms: Transition(None, Divisible(words)))
            assert len(world.port.batches) >= 3
            assert world.port.values == [*words[:5], *words]
            assert world.machine.words == world.port.values

        played(scenario)

    def test_with_a_linger_records_wait_for_others(self, played, clock):
        async def scenario(world):
            began = clock.now_ms()
            first = asyncio.ensure_future(world.write("a"))
            await asyncio.sleep(0.005)
            assert world.port.batches == []
            await world.write("b")
            await first
            assert len(world.port.batches) == 1
            assert clock.now_ms() - began == 10

        played(scenario, linger_ms=10)

    def test_an_error_of_the_machine_is_the_answer(self, played):
        async def scenario(world):
            def refuse(machine, now_ms):
                raise IllegalGeneration("no")

            with pytest.raises(IllegalGeneration):
                await world.shard.submit(refuse)
            assert world.shard.state is CoordinatorState.ACTIVE

        played(scenario)


class TestCommitting:
    def test_nobody_hears_of_what_is_not_committed(self, played):
        async def scenario(world):
            world.port.replicated = False
            write, read = await tasks(world.write("a"), world.read())
            await turns()
            assert world.port.values == ["a"]
            (later,) = await tasks(world.read())
            await turns()
            assert not write.done()
            assert not read.done()
            assert not later.done()
            world.port.commit()
            assert await asyncio.gather(write, read, later) == ["ok", ["a"], ["a"]]

        played(scenario)

    def test_a_refusal_by_what_is_not_committed_waits_for_it(self, played):
        def refuse(machine, now_ms):
            raise IllegalGeneration("there is an a")

        async def scenario(world):
            world.port.replicated = False
            write, refused = await tasks(world.write("a"), world.shard.submit(refuse))
            await turns()
            assert not refused.done()
            world.port.commit()
            await asyncio.wait([refused])
            assert isinstance(refused.exception(), IllegalGeneration)
            assert await write == "ok"

        played(scenario)

    def test_each_batch_is_answered_as_soon_as_it_is_committed(self, played):
        async def scenario(world):
            world.port.replicated = False
            (first,) = await tasks(world.write("a"))
            await turns()
            (second,) = await tasks(world.write("b"))
            await turns()
            world.port.commit(1)
            await turns()
            assert (first.done(), second.done()) == (True, False)
            world.port.commit()
            assert await second == "ok"

        played(scenario)

    def test_a_commit_that_takes_too_long_is_told_and_the_rest_goes_on(self, played, clock):
        async def scenario(world):
            world.port.replicated = False
            began = clock.now_ms()
            with pytest.raises(CoordinatorNotAvailable):
                await world.write("a")
            assert clock.now_ms() - began == 5_000
            assert world.shard.state is CoordinatorState.ACTIVE
            (later,) = await tasks(world.write("b"))
            await turns()
            world.port.commit()
            assert await later == "ok"
            assert world.failures == 0

        played(scenario)

    def test_where_flush_messages_asks_for_it_the_answer_waits_for_the_disk(self, played):
        async def scenario(world):
            world.port.sync_due = True
            (write,) = await tasks(world.write("a"))
            await turns()
            assert world.port.high_watermark == 1
            assert not write.done()
            world.force.waiting.pop()(None)
            assert await write == "ok"
            (write,) = await tasks(world.write("b"))
            await turns()
            world.force.waiting.pop()(KafkaStorageError("the device is gone"))
            with pytest.raises(NotCoordinator):
                await write

        played(scenario)


class TestParking:
    def test_a_parked_request_is_answered_by_a_later_decision(self, played):
        async def scenario(world):
            (parked,) = await tasks(world.write(reply=PARKED, token="join-1"))
            await turns()
            assert not parked.done()
            assert await world.write("a", effects=(Answer("join-1", "welcome"),)) == "ok"
            assert await parked == "welcome"

        played(scenario)

    def test_the_answer_waits_for_the_records_of_the_decision_that_gave_it(self, played):
        async def scenario(world):
            world.port.replicated = False
            (parked,) = await tasks(world.write(reply=PARKED, token=1))
            (write,) = await tasks(world.write("a", effects=(Answer(1, "welcome"),)))
            await turns()
            assert not parked.done()
            world.port.commit()
            assert await parked == "welcome"
            assert await write == "ok"

        played(scenario)

    def test_a_decision_may_answer_its_own_request(self, played):
        async def scenario(world):
            assert await world.write("a", reply=PARKED, token=1, effects=(Answer(1, "at once"),)) == "at once"

        played(scenario)

    def test_an_error_as_answer_is_raised(self, played):
        async def scenario(world):
            (parked,) = await tasks(world.write(reply=PARKED, token=1))
            await world.write(effects=(Answer(1, FencedInstanceId("another is here")),))
            with pytest.raises(FencedInstanceId):
                await parked

        played(scenario)

    def test_an_answer_to_someone_who_has_gone_goes_nowhere(self, played):
        async def scenario(world):
            (parked,) = await tasks(world.write(reply=PARKED, token=1))
            parked.cancel()
            await turns()
            assert await world.write(effects=(Answer(1, "late"), Answer("nobody", "late"))) == "ok"

        played(scenario)


class TestTimers:
    def test_a_timer_asks_the_machine_which_may_write_and_answer(self, played, clock):
        async def scenario(world):
            world.machine.answers_timer = lambda key: Transition(None, ("gone",), (Answer(1, "too late"),))
            at_ms = clock.now_ms() + 300
            (parked,) = await tasks(world.write(reply=PARKED, token=1, effects=(SetTimer("session", at_ms),)))
            assert await parked == "too late"
            assert world.machine.fired == [("session", at_ms)]
            assert world.port.values == ["gone"]

        played(scenario)

    def test_a_timer_can_be_moved_and_cancelled(self, played, clock):
        async def scenario(world):
            now_ms = clock.now_ms()
            await world.write(effects=(SetTimer("a", now_ms + 100), SetTimer("b", now_ms + 100)))
            await world.write(effects=(SetTimer("a", now_ms + 200), CancelTimer("b"), CancelTimer("unknown")))
            await asyncio.sleep(1)
            assert world.machine.fired == [("a", now_ms + 200)]

        played(scenario)

    def test_a_machine_that_fails_at_a_timer_starts_over(self, played, clock):
        async def scenario(world):
            world.machine.answers_timer = lambda key: Transition(None, ("poison",))
            await world.write(effects=(SetTimer("a", clock.now_ms() + 100),))
            await asyncio.sleep(1)
            assert world.failures == 1
            assert world.shard.state is CoordinatorState.LOADING

        played(scenario)


class TestStartingOver:
    @pytest.mark.parametrize(
        ("refusal", "told"),
        [
            (KafkaStorageError("full"), NotCoordinator),
            (NotLeaderOrFollower("moved"), NotCoordinator),
            (NotEnoughReplicas("too few"), CoordinatorNotAvailable),
            (MessageTooLarge("too large"), UnknownServerError),
        ],
    )
    def test_a_write_that_fails_is_told_in_a_coordinators_words(self, played, refusal, told):
        async def scenario(world):
            parked, _ = await tasks(world.write(reply=PARKED, token=1), world.read())
            world.port.refuses = refusal
            write, read = await tasks(world.write("a"), world.read())
            await turns()
            for waiting in (write, read):
                with pytest.raises(told):
                    await waiting
            with pytest.raises(NotCoordinator):
                await parked
            assert world.failures == 1
            with pytest.raises(CoordinatorLoadInProgress):
                await world.read()

        played(scenario)

    def test_a_decision_that_cannot_be_replayed_is_not_written(self, played):
        async def scenario(world):
            with pytest.raises(UnknownServerError):
                await world.write("a", "poison")
            await turns()
            assert world.port.batches == []
            assert world.failures == 1

        played(scenario)

    def test_a_parked_decision_that_cannot_be_replayed_is_told(self, played):
        async def scenario(world):
            with pytest.raises(NotCoordinator):
                await world.write("poison", reply=PARKED, token=1)

        played(scenario)

    def test_a_log_that_someone_else_wrote_to_is_loaded_again(self, played):
        async def scenario(world):
            await world.write("a")
            world.port.log_end_offset += 5
            with pytest.raises(NotCoordinator):
                await world.write("b")
            assert world.failures == 1

        played(scenario)

    def test_timers_of_a_machine_that_was_dropped_do_not_go_off(self, played, clock):
        async def scenario(world):
            await world.write(effects=(SetTimer("a", clock.now_ms() + 100),))
            world.shard.start_over(KafkaStorageError("gone"))
            await asyncio.sleep(1)
            assert world.machine.fired == []

        played(scenario)


class TestUnloading:
    def test_whoever_waits_is_told_to_look_elsewhere(self, played):
        async def scenario(world):
            world.port.replicated = False
            waiting = await tasks(world.write(reply=PARKED, token=1), world.write("a"), world.read())
            await turns()
            waiting += await tasks(world.write("b"))
            world.shard.close()
            for one in waiting:
                with pytest.raises(NotCoordinator):
                    await one
            with pytest.raises(NotCoordinator):
                await world.read()
            assert world.port.watchers == {}

        played(scenario)

    def test_what_comes_late_changes_nothing(self, played):
        async def scenario(world):
            world.port.sync_due = True
            (write,) = await tasks(world.write("a"))
            await turns()
            world.shard.close()
            world.force.waiting.pop()(None)
            world.shard.on_metadata(EMPTY, MetadataDelta())
            world.port.commit()
            with pytest.raises(NotCoordinator):
                await write
            assert world.machine.metadata == []

        played(scenario)

"""What a shard writes for a producer's transaction, the markers that end it, and what a machine publishes."""

from __future__ import annotations

import asyncio

import pytest
from played import Played, surroundings, turns

from kavka.model.errors import CoordinatorNotAvailable, InvalidProducerEpoch, NotCoordinator, NotEnoughReplicas
from kavka.model.transition import Publish, Transition
from kavka.records.batch import scan
from kavka.records.control import txn_marker_batch


def marker(commit=True):
    return txn_marker_batch(commit=commit, producer_id=7, producer_epoch=1, coordinator_epoch=3, timestamp=0)


def test_a_transactions_records_are_a_batch_of_their_producer(play, clock):
    async def case():
        played = Played(clock)
        plain = asyncio.ensure_future(played.write("plain"))
        await turns(1)
        reply = await played.shard.submit_transactional(lambda *_: Transition("ok", ("x", "y")), 7, 1)
        await plain
        assert reply == "ok"
        first, second = (scan(batch)[0] for batch in played.port.batches)
        assert not first.is_transactional
        assert (second.is_transactional, second.producer_id, second.producer_epoch, second.base_sequence) == (
            True, 7, 1, -1,
        )  # fmt: skip
        assert played.machine.seen == [(0, "plain"), (1, "x"), (2, "y")]
        await played.write("after")
        assert played.machine.seen[-1] == (3, "after")

    play(case())


def test_a_marker_is_written_and_acted_on_and_answered_when_it_is_committed(play, clock):
    async def case():
        played = Played(clock)
        played.port.replicated = False
        ending = asyncio.ensure_future(played.shard.end_transaction(marker(), 7, committed=True, version=2))
        await turns(5)
        assert not ending.done()
        played.port.commit()
        await ending
        assert played.machine.ended == [(7, True)]
        played.port.replicated = True
        await played.write("after")
        assert played.machine.seen == [(1, "after")]

    play(case())


def test_what_the_log_refuses_changes_nothing(play, clock):
    async def case():
        played = Played(clock)
        played.port.refuses = InvalidProducerEpoch()
        with pytest.raises(InvalidProducerEpoch):
            await played.shard.submit_transactional(lambda *_: Transition("ok", ("x",)), 7, 1)
        with pytest.raises(InvalidProducerEpoch):
            await played.shard.end_transaction(marker(), 7, committed=True)
        played.port.refuses = NotEnoughReplicas()
        with pytest.raises(CoordinatorNotAvailable):
            await played.shard.submit_transactional(lambda *_: Transition("ok", ("x",)), 7, 1)
        played.port.refuses = None
        assert (played.machine.seen, played.machine.ended, played.failures) == ([], [], 0)
        await played.write("after")

    play(case())


def test_a_shard_whose_plain_writes_fail_writes_no_transaction(play, clock):
    async def case():
        played = Played(clock)
        plain = asyncio.ensure_future(played.write("plain"))
        await turns(1)
        played.port.refuses = NotEnoughReplicas()
        with pytest.raises(CoordinatorNotAvailable):
            await played.shard.submit_transactional(lambda *_: Transition("ok", ("x",)), 7, 1)
        with pytest.raises(CoordinatorNotAvailable):
            await plain
        assert played.failures == 1

    play(case())


def test_somebody_elses_write_is_noticed(play, clock):
    async def case():
        played = Played(clock)
        played.port.append_own(marker(), 0)
        with pytest.raises(NotCoordinator):
            await played.shard.end_transaction(marker(), 7, committed=True)
        assert played.failures == 1

    play(case())


def test_what_is_published_is_told_when_it_is_committed_however_long_that_takes(play, clock):
    async def case():
        told = []
        played = Played(clock)
        played.shard._around = surroundings(clock)._replace(publish=lambda shard, news: told.append(news))
        played.port.replicated = False
        writing = asyncio.ensure_future(played.write("x", effects=(Publish("news"),)))
        await asyncio.sleep(20)
        with pytest.raises(CoordinatorNotAvailable):
            await writing
        assert told == []
        played.port.commit()
        assert told == ["news"]

    play(case())


def test_what_a_shard_that_starts_over_has_not_published_is_not_told(play, clock):
    async def case():
        told = []
        played = Played(clock)
        played.shard._around = surroundings(clock)._replace(publish=lambda shard, news: told.append(news))
        played.port.replicated = False
        writing = asyncio.ensure_future(played.write("x", effects=(Publish("news"),)))
        await turns(3)
        played.shard.start_over(NotCoordinator())
        with pytest.raises(NotCoordinator):
            await writing
        played.port.commit()
        assert told == []

    play(case())

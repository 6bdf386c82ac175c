import pytest

from kavka.model.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from kavka.replica.fetching import FINAL_EPOCH, INITIAL_EPOCH, MAX_EPOCH, FetchEntry, FetchSessions

EVICTION_MS = 120_000


class Watchable:
    def __init__(self):
        self.watchers = {}
        self.end_watchers = None


def entry(index=0, offset=0, topic="t"):
    return FetchEntry(topic, index, -1, offset, -1, -1, 1 << 20)


def sessions(slots=2):
    ids = iter(range(1, 1000))
    return FetchSessions(slots, EVICTION_MS, lambda: next(ids))


def begin(cache, session_id, epoch, entries=(), forgotten=(), ids=False, now=0):
    return cache.begin(session_id, epoch, entries, forgotten, ids, now)


def test_a_full_fetch_opens_a_session_whose_next_epoch_is_1():
    cache = sessions()
    whole, incremental = begin(cache, 0, INITIAL_EPOCH, [entry(0), entry(1)])
    assert (whole.id, whole.epoch, incremental, len(whole.dirty)) == (1, 1, False, 2)
    again, incremental = begin(cache, 1, 1)
    assert again is whole
    assert incremental
    assert whole.epoch == 2


def test_a_final_epoch_closes_the_session():
    cache = sessions()
    begin(cache, 0, INITIAL_EPOCH, [entry()])
    closing, incremental = begin(cache, 1, FINAL_EPOCH, [entry()])
    assert (closing.id, incremental, len(cache)) == (0, False, 0)


@pytest.mark.parametrize(
    ("session_id", "epoch", "ids", "error"),
    [
        (99, 1, False, FetchSessionIdNotFound),
        (1, 2, False, InvalidFetchSessionEpoch),
        (1, 1, True, FetchSessionTopicIdError),
    ],
)
def test_a_session_that_does_not_fit_is_refused(session_id, epoch, ids, error):
    cache = sessions()
    begin(cache, 0, INITIAL_EPOCH, [entry()])
    with pytest.raises(error):
        begin(cache, session_id, epoch, ids=ids)


def test_an_incremental_request_changes_and_forgets_partitions():
    cache = sessions()
    session, _ = begin(cache, 0, INITIAL_EPOCH, [entry(0), entry(1)])
    session.dirty.clear()
    begin(cache, 1, 1, [entry(0, offset=7), entry(2)], [("t", 1)])
    assert {key[1]: one.fetch_offset for key, one in session.entries.items()} == {0: 7, 2: 0}
    assert {one.index for one in session.dirty} == {0, 2}


def test_a_session_without_partitions_ends():
    cache = sessions()
    begin(cache, 0, INITIAL_EPOCH, [entry(0)])
    ended, incremental = begin(cache, 1, 1, (), [("t", 0)])
    assert (ended.id, incremental, len(cache)) == (0, False, 0)


def test_only_a_partition_with_news_becomes_dirty_and_wakes_the_waiter():
    cache = sessions()
    session, _ = begin(cache, 0, INITIAL_EPOCH, [entry(0), entry(1)])
    session.dirty.clear()
    woken = []
    session.wake = lambda: woken.append(True)
    quiet, busy = Watchable(), Watchable()
    session.entries["t", 0].watch(quiet)
    session.entries["t", 1].watch(busy)
    for watcher in busy.watchers:
        watcher.news()
    assert [one.index for one in session.dirty] == [1]
    assert woken == [True]


def test_a_removed_session_no_longer_watches():
    cache = sessions()
    session, _ = begin(cache, 0, INITIAL_EPOCH, [entry(0)])
    partition = Watchable()
    session.entries["t", 0].watch(partition)
    begin(cache, 1, FINAL_EPOCH)
    assert partition.watchers == {}


def test_with_no_slot_free_a_young_session_is_not_evicted():
    cache = sessions(slots=1)
    begin(cache, 0, INITIAL_EPOCH, [entry(0)])
    second, _ = begin(cache, 0, INITIAL_EPOCH, [entry(0), entry(1)], now=EVICTION_MS)
    assert second.id == 0


def test_a_stale_session_gives_way():
    cache = sessions(slots=1)
    begin(cache, 0, INITIAL_EPOCH, [entry(0), entry(1)])
    second, _ = begin(cache, 0, INITIAL_EPOCH, [entry(0)], now=EVICTION_MS + 1)
    assert second.id == 2
    assert cache.evictions == 1


def test_an_old_but_busy_session_gives_way_only_to_a_bigger_one():
    cache = sessions(slots=1)
    begin(cache, 0, INITIAL_EPOCH, [entry(0), entry(1)])
    begin(cache, 1, 1, now=EVICTION_MS)
    same_size, _ = begin(cache, 0, INITIAL_EPOCH, [entry(0), entry(1)], now=EVICTION_MS + 1)
    assert same_size.id == 0
    bigger, _ = begin(cache, 0, INITIAL_EPOCH, [entry(n) for n in range(3)], now=EVICTION_MS + 1)
    assert bigger.id == 2
    assert cache.evictions == 1


def test_a_session_that_goes_while_a_request_waits_stays_awake_until_it_is_answered():
    cache = sessions(slots=1)
    session, _ = begin(cache, 0, INITIAL_EPOCH, [entry(0)])
    partition = Watchable()
    session.entries["t", 0].watch(partition)
    session.dirty.clear()
    woken = []
    session.wake = lambda: woken.append(True)
    second, _ = begin(cache, 0, INITIAL_EPOCH, [entry(0)], now=EVICTION_MS + 1)
    assert (second.id, cache.evictions, len(cache)) == (2, 1, 1)
    for watcher in list(partition.watchers):
        watcher.news()
    assert (woken, len(session.dirty), session.id) == ([True], 1, 0)


def test_a_request_that_waits_is_woken_when_the_session_goes_on_without_it():
    cache = sessions()
    session, _ = begin(cache, 0, INITIAL_EPOCH, [entry(0)])
    woken = []
    session.wake = lambda: woken.append(True)
    begin(cache, 1, 1)
    assert woken == [True]
    assert session.wake is None


def test_an_epoch_wraps_to_1():
    cache = sessions()
    session, _ = begin(cache, 0, INITIAL_EPOCH, [entry(0)])
    session.epoch = MAX_EPOCH
    begin(cache, 1, MAX_EPOCH)
    assert session.epoch == 1


def test_a_followers_session_gives_way_only_to_a_follower():
    cache = sessions(slots=1)
    privileged, _ = cache.begin(0, 0, [entry()], [], False, 0, privileged=True)
    plain, _ = cache.begin(0, 0, [entry(1), entry(2)], [], False, 0)
    cache.begin(privileged.id, 1, [], [], False, EVICTION_MS)
    big = [entry(number) for number in range(9)]
    assert cache.begin(0, 0, big, [], False, EVICTION_MS + 1)[0].id == 0
    assert plain.id == 0
    assert cache.begin(0, 0, big, [], False, EVICTION_MS + 1, privileged=True)[0].id != 0


def test_a_follower_takes_the_place_of_any_other_session_that_is_old():
    cache = sessions(slots=1)
    busy, _ = cache.begin(0, 0, [entry(number) for number in range(9)], [], False, 0)
    cache.begin(busy.id, 1, [], [], False, EVICTION_MS)
    assert cache.begin(0, 0, [entry()], [], False, EVICTION_MS + 1, privileged=True)[0].id != 0

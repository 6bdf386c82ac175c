"""A follower's decisions: where it starts, where it cuts, and what it does about errors."""

from __future__ import annotations

import pytest

from kavka.model.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetMovedToTieredStorage,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicId,
)
from kavka.replication.follower import (
    Reaction,
    Reset,
    backoff_ms,
    committed_offset,
    reaction,
    reset,
    start_offset,
    truncation_offset,
)
from kavka.storage.epochs import LeaderEpochs


def test_a_log_with_epochs_goes_on_at_its_end_and_one_without_at_what_is_committed():
    assert start_offset(LeaderEpochs([(0, 0)]), 50, 20) == 50
    assert start_offset(LeaderEpochs(), 50, 20) == 20


@pytest.mark.parametrize(
    ("diverging", "cut"),
    [
        ((3, 25), 25),  # the leader's epoch 3 ended earlier than ours
        ((3, 60), 30),  # it ended later, but our epoch 4 began before
        ((4, 45), 45),
        ((4, 99), 50),
        ((2, 40), 20),  # an epoch between two of ours: everything after the lower one goes, then we ask again
        ((0, 5), 5),  # older than all of ours
        ((9, 45), 45),  # newer than all of ours, which a leader never says
    ],
)
def test_a_log_is_cut_where_it_parts_from_the_leaders(diverging, cut):
    assert truncation_offset(diverging, LeaderEpochs([(1, 10), (3, 20), (4, 30)]), 50) == cut


def test_the_high_watermark_of_a_follower_goes_neither_back_nor_beyond_its_log():
    assert committed_offset(10, 30, 20) == 20
    assert committed_offset(10, 15, 20) == 15
    assert committed_offset(10, 5, 20) == 10


def test_out_of_range_means_a_leader_that_has_less_or_one_that_has_deleted_what_we_need():
    assert reset(100, 0, 80) == Reset(80, whole=False)
    assert reset(100, 150, 200) == Reset(150, whole=True)
    assert reset(100, 50, 200) == Reset(100, whole=False)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NotLeaderOrFollower, Reaction.SOON),
        (UnknownLeaderEpoch, Reaction.SOON),
        (UnknownTopicId, Reaction.SOON),
        (FencedLeaderEpoch, Reaction.WAIT),
        (OffsetOutOfRange, Reaction.RESET),
        (OffsetMovedToTieredStorage, Reaction.RESET_LOCAL),
        (KafkaStorageError, Reaction.LATER),
        (CorruptMessage, Reaction.LATER),
    ],
)
def test_each_error_has_its_reaction(error, expected):
    assert reaction(error.code) is expected


def test_what_passes_soon_is_tried_soon_and_then_more_and_more_seldom():
    assert [backoff_ms(Reaction.SOON, attempt, 50, 1_000) for attempt in (1, 2, 3, 5, 6, 99)] == [
        50,
        100,
        200,
        800,
        1_000,
        1_000,
    ]
    assert backoff_ms(Reaction.LATER, 1, 50, 1_000) == 1_000

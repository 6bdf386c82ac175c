"""Clusters in virtual time: nothing is lost whatever fails, and bugs planted on purpose are found."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from kavka.raft import electing, leading, membership
from kavka.raft.node import Node, Role
from kavka.replication import follower
from kavka.replication.leader import Leadership
from kavka.testing.sim import Outcome, Parts, ViolationError, simulate
from kavka.testing.sim.seeds import run_seeds

FULL = os.environ.get("KAVKA_SCALE") == "full"
SEEDS = range(10_000 if FULL else 150)
SEEDS_FOR_A_BUG = range(1_000, 1_060)


@pytest.mark.timeout(7_200 if FULL else 900)
def test_no_run_breaks_a_promise() -> None:
    found = list(run_seeds(SEEDS, len(os.sched_getaffinity(0))))
    failed = [one for one in found if not isinstance(one, Outcome)]
    assert not failed, "\n".join(
        f"replay with python -m kavka.testing.sim --seeds {seed}: {why}" for seed, why in failed
    )
    runs = [one for one in found if isinstance(one, Outcome)]
    assert min(run.virtual_ms for run in runs) >= 60_000
    assert min(run.elections for run in runs) >= 3
    assert min(run.acked for run in runs) > 0
    assert sum(run.snapshots for run in runs) > len(runs)
    assert sum(run.voter_changes for run in runs) > len(runs) // 2
    assert sum(run.truncations for run in runs) > len(runs)


def test_a_seed_gives_the_same_run_again() -> None:
    assert simulate(7) == simulate(7)


class AcksAtOnce(Leadership):
    """Takes for committed what only the leader has."""

    __slots__ = ()

    def high_watermark(self, end_offset: int, *_: object) -> int:
        return end_offset


def can_grant_twice(node: Node, vote: electing.Vote) -> bool:
    up_to_date = (vote.last_epoch, vote.last_offset) >= (node.log.last_epoch, node.log.end_offset)
    return node.role is not Role.LEADER and up_to_date


def commit_on_old_epoch(node: Node, now_ms: int) -> None:
    led = node.leading
    if led is not None and (offset := led.followers.majority_offset()) > led.high_watermark:
        led.high_watermark = offset
        node.advance_high_watermark(offset)
        membership.on_commit(node, led)
        leading.answer_parked(node, now_ms, everyone=True)


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], Parts]] = {
    "a vote given twice": lambda patch: patch.setattr(electing, "_can_grant", can_grant_twice) or Parts(),
    "a commit of an old epoch's": lambda patch: (
        patch.setattr(leading, "update_high_watermark", commit_on_old_epoch) or Parts()
    ),
    "an acknowledgement before the followers have it": lambda patch: Parts(leadership=AcksAtOnce),
    "a truncation left out": lambda patch: (
        patch.setattr(follower, "truncation_offset", lambda diverging, epochs, end_offset: end_offset) or Parts()
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = PLANTED[bug](monkeypatch)
    for seed in SEEDS_FOR_A_BUG:
        try:
            simulate(seed, parts)
        except ViolationError as violation:
            print(f"{bug}: {violation}")  # noqa: T201  (the count of seeds is worth seeing)
            return
    pytest.fail(f"{bug} was not found in {len(SEEDS_FOR_A_BUG)} runs")

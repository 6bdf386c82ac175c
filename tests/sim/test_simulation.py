"""Clusters in virtual time: nothing is lost whatever fails, and bugs planted on purpose are found."""

from __future__ import annotations

import os

import pytest

from kavka.testing.sim import RunOutcome, ViolationError, simulate
from kavka.testing.sim.lines import executed
from kavka.testing.sim.seeds import run_seeds
from kavka.testing.sim.workloads import all_workloads
from scale import FULL, rounds
from sim.planted import PLANTED

SEEDS = range(rounds(10_000, 40))
SEEDS_FOR_A_BUG = 200
SEEDS_FOR_LINES = range(rounds(20, 3))
WELL_SIMULATED = {
    "quorum": 75,
    "raft": 85,
    "replica": 70,
    "replication": 75,
    "runtime": 50,
    "storage": 65,
    "coordinator": 45,
}
"""The share of a package's lines, in percent, that runs at the least."""


@pytest.mark.timeout(90_000 if FULL else 900)
def test_no_run_breaks_a_promise() -> None:
    found = list(run_seeds(SEEDS, len(os.sched_getaffinity(0))))
    failed = [result for result in found if not isinstance(result, RunOutcome)]
    assert not failed, "\n".join(
        f"replay with python -m kavka.testing.sim --seeds {seed}: {why}" for seed, why in failed
    )
    runs = [result for result in found if isinstance(result, RunOutcome)]
    assert min(run.seconds for run in runs) >= 6
    assert min(run.faults for run in runs) >= 1
    assert sum(run.elections for run in runs) > len(runs)
    done = {name for run in runs for name, count in run.counts.items() if count}
    assert done >= {
        "acknowledged jobs",
        "acknowledged records",
        "administrative acts",
        "committed offsets",
        "committed transactions",
        "members",
        "repeated batches",
        "guarded writes",
        "tasks of streams",
        "tiered records",
    }


def test_a_seed_gives_the_same_run_again() -> None:
    first = simulate(7)
    assert simulate(7) == first


def test_another_process_gives_the_same_run() -> None:
    found = list(run_seeds([7, 7], 2))
    assert isinstance(found[0], RunOutcome)
    assert found[0] == found[1]


def test_every_workload_has_a_module_of_its_own() -> None:
    names = [workload.__name__ for workload in all_workloads()]
    assert names == [
        "Administration",
        "Members",
        "Offsets",
        "Records",
        "Repeats",
        "Rights",
        "Shares",
        "Streams",
        "Tiers",
        "Transactions",
    ]


@pytest.mark.timeout(3_600 if FULL else 900)
@pytest.mark.parametrize("bug", list(PLANTED)[:: 1 if FULL else 4])
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PLANTED[bug]
    planted.plant(monkeypatch)
    for seed in planted.seeds(SEEDS_FOR_A_BUG):
        try:
            simulate(seed, planted.workloads)
        except ViolationError as violation:
            print(f"{bug}: {violation}")  # noqa: T201  (the count of seeds is worth seeing)
            return
    pytest.fail(f"{bug} was not found in {SEEDS_FOR_A_BUG} runs")


@pytest.mark.timeout(3_600 if FULL else 900)
def test_the_simulation_runs_most_of_what_it_is_about() -> None:
    found = executed(SEEDS_FOR_LINES)
    assert found is not None
    little = {name: round(found[name].percent) for name, least in WELL_SIMULATED.items() if found[name].percent < least}
    assert not little

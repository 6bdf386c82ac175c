"""Clusters in virtual time: nothing is lost whatever fails, and bugs planted on purpose are found."""

from __future__ import annotations

import os

import pytest

from kavka.testing.sim import ViolationError, simulate
from kavka.testing.sim.__main__ import Findings, main
from kavka.testing.sim.lines import executed
from kavka.testing.sim.seeds import HASH_SEED, Attempt, command, run_seeds
from kavka.testing.sim.workloads import all_workloads
from kavka.testing.sim.workloads.streams import Streams
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
    failed = [run for run in found if run.outcome is None]
    assert not failed, "\n".join(f"{run.violation}; again with {command(run.seed, ())}" for run in failed)
    runs = [run.outcome for run in found if run.outcome is not None]
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
        "registered schemas",
        "commits of streams",
        "standby tasks of streams",
        "tasks of streams",
        "tiered records",
    }


def test_a_seed_gives_the_same_run_again() -> None:
    first = simulate(7)
    assert simulate(7) == first


def test_another_process_gives_the_same_run() -> None:
    found = list(run_seeds([7, 7], 2))
    assert found[0].outcome is not None
    assert found[0].outcome == found[1].outcome


def test_the_command_says_what_was_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3-4", "--workloads", "streams,offsets", "--jobs", "2", "--lines", "0"]) == 0
    said = capsys.readouterr().out
    assert "2 of 2 seeds" in said
    assert "0 with violations" in said
    assert "Offsets 2, Streams 2" in said


def test_a_violation_comes_with_the_command_that_shows_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", HASH_SEED)  # so that a single job runs in this process
    monkeypatch.setattr(Streams, "faults", lambda self: ["somebody was not greeted"])
    assert main(["--seeds", "3", "--workloads", "streams", "--lines", "0"]) == 1
    said = capsys.readouterr().out
    assert "Streams: somebody was not greeted" in said
    assert "python -m kavka.testing.sim --seeds 3 --workloads streams --lines 0" in said
    assert "1 of 1 seeds" in said


@pytest.mark.parametrize("wrong", [["--seeds", "9-3"], ["--seeds", "some"], ["--workloads", "dances"]])
def test_what_cannot_be_run_is_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(wrong)
    assert refused.value.code == 2
    assert wrong[0] in capsys.readouterr().err


def test_an_interrupted_run_says_how_to_go_on() -> None:
    findings = Findings(range(10, 20))
    for seed in (11, 10, 13):
        findings.take(Attempt(seed, 0.5, None, "lost"))
    assert findings.rest() == "12-19"
    assert str(findings) == "3 of 10 seeds, 0.50 CPU-s each, 3 with violations"
    for seed in range(10, 20):
        findings.take(Attempt(seed, 0.5, None, "lost"))
    assert findings.rest() == ""


def test_every_workload_has_a_module_of_its_own() -> None:
    names = [workload.__name__ for workload in all_workloads()]
    assert names == [
        "Administration",
        "Members",
        "Offsets",
        "Records",
        "Repeats",
        "Rights",
        "Schemas",
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

"""Many seeds on several processes."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

from kavka.testing.sim.cluster import RunOutcome, simulate
from kavka.testing.sim.workloads import named
from kavka.testing.sim.world import ViolationError

HASH_SEED: Final = "0"
"""Sets of texts have an order that Python draws at the start of a process, unless it is told which."""
RUNS_PER_PROCESS: Final = 200


class Attempt(NamedTuple):
    """A run that came to its end, or what went wrong."""

    seed: int
    cpu_seconds: float
    outcome: RunOutcome | None
    violation: str = ""


def attempt(seed: int, workloads: Sequence[str] = ()) -> Attempt:
    """One run, of these workloads or of those that the seed draws."""
    gc.collect()
    gc.freeze()  # what outlives a run, modules for the most part, need not be looked at again and again
    began = time.process_time()
    outcome, violation = None, ""
    try:
        outcome = simulate(seed, named(workloads) if workloads else None)
    except ViolationError as error:
        violation = str(error)
    except Exception:
        violation = traceback.format_exc()
    return Attempt(seed, time.process_time() - began, outcome, violation)


def command(seed: int, workloads: Sequence[str]) -> str:
    """What shows a run again."""
    chosen = f" --workloads {','.join(workloads)}" if workloads else ""
    return f"python -m kavka.testing.sim --seeds {seed}{chosen} --lines 0"


@contextmanager
def same_hashes() -> Iterator[None]:
    """Have the processes that are started meanwhile give texts the same hashes."""
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = HASH_SEED
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONHASHSEED"]
        else:
            os.environ["PYTHONHASHSEED"] = before


def run_seeds(seeds: Sequence[int], jobs: int, workloads: Sequence[str] = ()) -> Iterator[Attempt]:
    """Each seed's run as it ends; a process that dies ends it all with BrokenProcessPool.

    The processes are spawned: a fork of one that has threads may inherit a lock that nobody will release. A single job
    runs here, if this process has the right hashes.
    """
    if jobs == 1 and os.environ.get("PYTHONHASHSEED") == HASH_SEED:
        yield from (attempt(seed, workloads) for seed in seeds)
        return
    at_once = jobs * RUNS_PER_PROCESS
    for start in range(0, len(seeds), at_once):
        yield from _run_some(seeds[start : start + at_once], jobs, workloads)


def _run_some(seeds: Sequence[int], jobs: int, workloads: Sequence[str]) -> Iterator[Attempt]:
    """Runs on processes that end with them, for they grow; `max_tasks_per_child` may wait for ever (CPython 115634)."""
    several = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _leave_it_to_the_parent)
    with same_hashes(), several as pool:
        try:
            for done in as_completed([pool.submit(partial(attempt, seed, workloads)) for seed in seeds]):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _leave_it_to_the_parent() -> None:
    """A key that interrupts reaches all processes of a terminal; the one that was started ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

"""Many seeds on several processes."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Final

from kavka.testing.sim.cluster import RunOutcome, simulate
from kavka.testing.sim.world import ViolationError

Found = RunOutcome | tuple[int, str]

HASH_SEED: Final = "0"
"""Sets of texts have an order that Python draws at the start of a process, unless it is told which."""
RUNS_PER_PROCESS: Final = 50


def attempt(seed: int) -> Found:
    """One run, or the seed and what went wrong."""
    try:
        return simulate(seed)
    except ViolationError as violation:
        return seed, str(violation)
    except Exception:
        return seed, traceback.format_exc()


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


def run_seeds(seeds: Sequence[int], processes: int) -> Iterator[Found]:
    """Each seed's run as it ends; a process that dies ends it all with BrokenProcessPool.

    The processes are spawned: a fork of one that has threads may inherit a lock that nobody will release.
    """
    context = multiprocessing.get_context("spawn")
    with same_hashes(), ProcessPoolExecutor(processes, context, max_tasks_per_child=RUNS_PER_PROCESS) as pool:
        for done in as_completed([pool.submit(attempt, seed) for seed in seeds]):
            yield done.result()

"""Many seeds on several processes."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from kavka.testing.sim.checks import ViolationError
from kavka.testing.sim.cluster import Outcome, simulate

Found = Outcome | tuple[int, str]


def attempt(seed: int) -> Found:
    """One run, or the seed and what went wrong."""
    try:
        return simulate(seed)
    except ViolationError as violation:
        return seed, str(violation)
    except Exception:
        return seed, traceback.format_exc()


def run_seeds(seeds: Sequence[int], processes: int) -> Iterator[Found]:
    """Each seed's run as it ends; a process that dies ends it all with BrokenProcessPool.

    The processes are spawned: a fork of one that has threads may inherit a lock that nobody will release.
    """
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(attempt, seed) for seed in seeds]):
            yield done.result()

"""Whole clusters in virtual time: the shipped raft core, controller and replication, on a network and disks that fail.

`simulate(seed)` runs one cluster for about two virtual minutes and raises `ViolationError` if anything was lost or
contradicted itself; the same seed gives the same run. `python -m kavka.testing.sim --seeds 0-300` runs many.
"""

from kavka.testing.sim.checks import ViolationError
from kavka.testing.sim.cluster import Outcome, Parts, SimCluster, simulate

__all__ = ["Outcome", "Parts", "SimCluster", "ViolationError", "simulate"]

"""Whole clusters of the shipped code in one process, in virtual time, on networks, disks and clocks that fail.

`simulate(seed)` runs the nodes of one cluster (`broker.wiring.Node`: quorum, replicas, storage, coordinators) and the
shipped clients for about half a virtual minute of trouble, and raises `ViolationError` if anything was lost or
contradicted itself; the same seed gives the same run. `python -m kavka.testing.sim --seeds 0-300` runs many.
"""

from kavka.testing.sim.client import SimClient, Workload
from kavka.testing.sim.cluster import RunOutcome, SimCluster, simulate
from kavka.testing.sim.world import ViolationError

__all__ = ["RunOutcome", "SimClient", "SimCluster", "ViolationError", "Workload", "simulate"]

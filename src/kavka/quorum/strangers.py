"""Nodes of other clusters: they are refused with INCONSISTENT_CLUSTER_ID, and logged once, because they ask again."""

from __future__ import annotations

import logging
from typing import Final

from kavka.model.errors import InconsistentClusterId

logger = logging.getLogger(__name__)

MOST_TOLD: Final = 100
"""How many nodes of other clusters are logged; making up more of them fills no disk."""
FIRST_BACKOFF_SECONDS: Final = 0.5
LONGEST_BACKOFF_SECONDS: Final = 5.0


class Strangers:
    """The nodes of other clusters that have sent requests."""

    __slots__ = ("_cluster_id", "_told")

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._told: set[tuple[str, str]] = set()

    def check(self, claimed: str | None, host: str) -> None:
        """Raise InconsistentClusterId for a request from a node of another cluster."""
        if claimed is None or claimed == self._cluster_id:
            return
        if (claimed, host) not in self._told and len(self._told) < MOST_TOLD:
            self._told.add((claimed, host))
            logger.warning(
                "INCONSISTENT_CLUSTER_ID: a node at %s is of cluster %s, this one of cluster %s: it is refused",
                host,
                claimed,
                self._cluster_id,
            )
        raise InconsistentClusterId(f"this node is of cluster {self._cluster_id}, not of {claimed}")


class Refusals:
    """Which nodes say that this one is of another cluster, and when they may be asked again."""

    __slots__ = ("_backoff", "_cluster_id", "_not_before")

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._backoff: dict[int, float] = {}
        self._not_before: dict[int, float] = {}

    def pause(self, node: int, now: float) -> float:
        """How many seconds not to ask a node."""
        return max(0.0, self._not_before.get(node, now) - now)

    def refused(self, node: int, now: float) -> None:
        """A node has said so; it will most likely say it again."""
        if not self._backoff:  # once: all the others of that cluster will say so too
            logger.error(
                "INCONSISTENT_CLUSTER_ID: %s is not of cluster %s, as this node is: was one of them formatted anew, "
                "or is an address wrong?",
                f"node {node}" if node >= 0 else "a bootstrap server",
                self._cluster_id,
            )
        backoff = min(self._backoff.get(node, FIRST_BACKOFF_SECONDS / 2) * 2, LONGEST_BACKOFF_SECONDS)
        self._backoff[node], self._not_before[node] = backoff, now + backoff

    def accepted(self, node: int) -> None:
        """A node has answered as one of the same cluster."""
        if self._backoff.pop(node, None) is not None:
            del self._not_before[node]
            logger.info("node %d is of cluster %s now", node, self._cluster_id)

"""Kavka inside tests: a real node in a temporary directory, ready in a fraction of a second."""

from kavka.testing.cluster import Cluster, NodeError

__all__ = ["Cluster", "NodeError"]

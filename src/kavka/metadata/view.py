"""The cluster's metadata for those who only read it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from kavka.metadata.image.metadata import MetadataImage


@runtime_checkable
class MetadataView(Protocol):
    """What this node knows of the cluster: an image that is replaced, never changed."""

    @property
    def image(self) -> MetadataImage:
        """The newest committed image."""

    @property
    def node_id(self) -> int:
        """This node."""

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""

    @property
    def kraft_version(self) -> int:
        """The version of the quorum's protocol, which the cluster's features are shown with."""

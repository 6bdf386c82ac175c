"""What is known of a cluster, and what of it is shown to people first."""

from __future__ import annotations

import pytest

from kavka.client import TopicView
from kavka.console.watching import is_internal
from kavka.model.types import Uuid


@pytest.mark.parametrize(
    ("name", "told", "internal"),
    [
        ("__consumer_offsets", True, True),
        ("__remote_log_metadata", False, True),
        ("__kavka_audit", False, True),
        ("_schemas", False, True),
        ("_of-a-user", False, False),
        ("orders", False, False),
        ("orders", True, True),
    ],
)
def test_topics_of_the_clusters_own_are_told_apart_from_those_of_users(name: str, told: bool, internal: bool) -> None:
    assert is_internal(name, TopicView(name, Uuid.ZERO, told, {})) is internal

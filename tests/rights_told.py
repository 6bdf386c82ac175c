"""What answers tell of their reader's rights (KIP-430)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kavka.security.acl import Operation
from rights import (
    BY_STEM,
    GROUP,
    LIVE_CONSUMERS,
    LIVE_SHARE,
    LIVE_STREAMS,
    TOPIC,
    Right,
    build,
    on_cluster,
    on_group,
    on_topic,
)


class Operations(NamedTuple):
    """A response that tells what its reader may do (KIP-430)."""

    stem: str
    version: int
    body: dict[str, Any]
    told: Callable[[Any], int]
    rights: tuple[Right, ...]
    expected: tuple[str, ...]

    @property
    def bits(self) -> int:
        return sum(1 << Operation[name] for name in self.expected)

    def request(self) -> Any:
        return build(BY_STEM[self.stem].request(), self.body)

    def __str__(self) -> str:
        return f"{self.stem}-{'-'.join(map(str, self.rights)) or 'nothing'}"


def _of_topic(answer: Any) -> int:
    return int(answer.topics[0].topic_authorized_operations)


def _of_cluster(answer: Any) -> int:
    return int(answer.cluster_authorized_operations)


def _of_group(answer: Any) -> int:
    return int(answer.groups[0].authorized_operations)


_TOPIC_ASKED = {"topics": [{"name": TOPIC}], "include_topic_authorized_operations": True}
_CLUSTER_ASKED = {"topics": [], "include_cluster_authorized_operations": True}

OPERATIONS = [
    *(
        Operations(stem, version, body, _of_topic, rights, expected)
        for stem, version, body in (
            ("metadata", 9, _TOPIC_ASKED),
            ("describe_topic_partitions", 0, {"topics": [{"name": TOPIC}]}),
        )
        for rights, expected in (
            ((on_topic("READ"),), ("READ", "DESCRIBE")),
            ((on_topic("DESCRIBE"), on_topic("ALTER_CONFIGS")), ("DESCRIBE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS")),
            (
                (on_topic("ALL"),),
                ("READ", "WRITE", "CREATE", "DESCRIBE", "DELETE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
            ),
        )
    ),
    *(
        Operations(stem, version, body, _of_cluster, rights, expected)
        for stem, version, body in (
            ("metadata", 9, _CLUSTER_ASKED),
            ("describe_cluster", 0, {"include_cluster_authorized_operations": True}),
        )
        for rights, expected in (
            ((), ()),
            ((on_cluster("CREATE"),), ()),  # only those are told who may describe
            ((on_cluster("DESCRIBE"),), ("DESCRIBE",)),
            ((on_cluster("ALTER"), on_cluster("IDEMPOTENT_WRITE")), ("ALTER", "DESCRIBE", "IDEMPOTENT_WRITE")),
            (
                (on_cluster("ALL"),),
                (
                    "CREATE",
                    "CLUSTER_ACTION",
                    "DESCRIBE_CONFIGS",
                    "ALTER_CONFIGS",
                    "IDEMPOTENT_WRITE",
                    "ALTER",
                    "DESCRIBE",
                ),
            ),
        )
    ),
    *(
        Operations(stem, version, body, _of_group, rights, expected)
        for stem, version, group in (
            ("describe_groups", 5, GROUP),
            ("consumer_group_describe", 1, LIVE_CONSUMERS),
            ("share_group_describe", 1, LIVE_SHARE),
            ("streams_group_describe", 0, LIVE_STREAMS),
        )
        for body in ({("groups" if group == GROUP else "group_ids"): [group], "include_authorized_operations": True},)
        for rights, expected in (
            ((on_group("READ", group), on_topic("DESCRIBE")), ("READ", "DESCRIBE")),
            (
                (on_group("ALL", group), on_topic("DESCRIBE")),
                ("READ", "DESCRIBE", "DELETE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
            ),
        )
    ),
]


def readers() -> Iterator[tuple[Operations, str]]:
    """Every case of operations, with its user."""
    yield from ((case, f"o{number}") for number, case in enumerate(OPERATIONS))

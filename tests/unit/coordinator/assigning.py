"""Groups for assignors to assign."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kavka.coordinator.assignors.spec import MemberSpec
from kavka.model.types import Uuid

A, B, C = (Uuid(name * 16) for name in (b"a", b"b", b"c"))
COUNTS = st.fixed_dictionaries({A: st.integers(0, 12), B: st.integers(0, 7), C: st.integers(0, 3)})
WANTS = st.sets(st.sampled_from([A, B, C])).map(frozenset)


def spread(counts, members):
    """Some earlier assignment, of whatever quality: partitions that are no more among it."""
    names = sorted(members)
    given_: Any = {name: {} for name in names}
    for topic_id, count in counts.items():
        for partition in range(count + 1):
            mine = given_[names[(partition * 7 + count) % len(names)]]
            mine.setdefault(topic_id, set()).add(partition)
    return {name: {topic_id: frozenset(found) for topic_id, found in mine.items()} for name, mine in given_.items()}


@st.composite
def groups(draw, wants=WANTS):
    counts = draw(COUNTS)
    names = [f"m{number}" for number in range(draw(st.integers(1, 6)))]
    before = spread(counts, names) if draw(st.booleans()) else {}
    members = {
        name: MemberSpec(draw(wants), before.get(name, {}), draw(st.sampled_from([None, f"i{name}"]))) for name in names
    }
    return members, counts


def owners(assigned):
    found = {}
    for name, topics in assigned.items():
        for topic_id, partitions in topics.items():
            assert partitions, "a topic without partitions is left out"
            for partition in partitions:
                assert (topic_id, partition) not in found
                found[topic_id, partition] = name
    return found

"""PersistentMap behaves as a dict that is copied at every change, only cheaper."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.metadata.image.persistent import GONE, Gone, PersistentMap

CHANGES = st.lists(
    st.dictionaries(st.integers(0, 60), st.one_of(st.integers(), st.just(GONE)), max_size=8), max_size=40
)


@given(CHANGES)
def test_every_generation_is_the_dict_that_was_copied_and_changed(steps):
    now, plain, history = PersistentMap[int, int](), {}, []
    for changes in steps:
        history.append((now, dict(plain)))
        now = now.changed(changes)
        for key, value in changes.items():
            if value is GONE:
                plain.pop(key, None)
            else:
                plain[key] = value
        for key in range(61):
            assert now.get(key) == plain.get(key)
            assert (key in now) == (key in plain)
    for generation, expected in [*history, (now, plain)]:
        assert generation == expected
        assert dict(generation.items()) == expected
        assert len(generation) == len(expected)
        assert sorted(generation) == sorted(expected.keys())


def test_a_missing_key_raises_and_a_removed_one_too():
    mapping = PersistentMap({"a": 1, "b": 2}).changed({"a": GONE})
    assert mapping["b"] == 2
    for key in ("a", "c"):
        with pytest.raises(KeyError):
            mapping[key]
    assert mapping.get("a", 7) == 7


def test_changing_nothing_keeps_the_very_same_mapping():
    mapping = PersistentMap({"a": 1})
    assert mapping.changed({}) is mapping


def test_a_change_does_not_copy_the_base():
    big = PersistentMap({number: number for number in range(10_000)})
    after = big.changed({-1: 1})
    assert after._base is big._base
    for number in range(1000):
        after = after.changed({-number: number})
    assert len(after._over) <= 16 + 2 * 105


def test_what_differs_is_told_exactly_also_where_the_base_is_another_one() -> None:
    before = PersistentMap({number: str(number) for number in range(100)})
    changes: dict[int, str | Gone] = dict.fromkeys(range(50), "new") | dict.fromkeys(range(60, 70), GONE)
    after = before.changed({**changes, 1000: "added"})
    assert after._base is not before._base
    assert sorted(after.differing(before)) == [*range(50), *range(60, 70), 1000]
    assert sorted(before.differing(after)) == [*range(50), *range(60, 70), 1000]
    assert list(before.differing(PersistentMap(before))) == []

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kavka.storage.offset_map import OffsetMap


def test_a_key_has_its_last_offset():
    keys = OffsetMap(2400)
    keys.put(b"a", 1)
    keys.put(b"b", 2)
    keys.put(b"a", 3)
    assert (keys.get(b"a"), keys.get(b"b"), keys.get(b"c"), keys.size) == (3, 2, -1, 2)


def test_it_is_full_at_nine_tenths():
    keys = OffsetMap(240)
    for number in range(9):
        assert not keys.full
        keys.put(bytes([number]), number)
    assert keys.full
    assert [keys.get(bytes([number])) for number in range(9)] == list(range(9))
    assert keys.get(b"other") == -1


def test_the_smallest_map_still_takes_a_key():
    keys = OffsetMap(1)
    assert not keys.full
    keys.put(b"", 0)
    assert keys.get(b"") == 0


@given(st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 2**62)), max_size=200))
def test_it_answers_like_a_dictionary(puts):
    keys, expected = OffsetMap(24 * 300), {}
    for key, offset in puts:
        keys.put(key, offset)
        expected[key] = offset
    assert keys.size == len(expected)
    assert all(keys.get(key) == offset for key, offset in expected.items())

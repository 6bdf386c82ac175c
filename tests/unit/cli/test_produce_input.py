"""Records from lines, and records made up."""

from __future__ import annotations

import pytest

from kavka.cli.output import CommandError
from kavka.cli.produce import Keyed, generate, keyed


def test_a_line_is_a_record_without_its_line_end() -> None:
    assert [keyed(line, None, 1) for line in (b"a", b"b\r", b"")] == [(None, b"a"), (None, b"b"), (None, b"")]


def test_the_key_ends_at_the_first_separator() -> None:
    assert keyed(b"k=>v=>w", "=>", 1) == Keyed(b"k", b"v=>w")
    assert keyed(b"=>", "=>", 1) == Keyed(b"", b"")


def test_a_line_without_the_separator_is_named() -> None:
    with pytest.raises(CommandError, match="line 2 has no key separator ':'"):
        keyed(b"c", ":", 2)


def test_generated_records_have_the_size_and_differ() -> None:
    values = [value for _, value in generate(100, 50)]
    assert {len(value or b"") for value in values} == {50}
    assert len(set(values)) == 100

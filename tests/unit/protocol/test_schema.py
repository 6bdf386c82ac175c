"""The declaration language: what an annotation means, and what the declared classes can do."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import Annotated

import pytest

from kavka.model.types import Uuid
from kavka.protocol.schema import (
    BOOL,
    EVERY,
    FRESH,
    IGNORABLE,
    NEVER,
    RECORDS,
    REQUIRED,
    STRING,
    UUID,
    Array,
    Field,
    Int16,
    Int32,
    Records,
    Scalar,
    Struct,
    between,
    common_versions,
    data,
    declared,
    fields_of,
    fresh,
    message,
    null_since,
    parse_versions,
    replace,
    request,
    since,
    tag,
    until,
)


@message
class Inner:
    name: str
    port: Int32 = 9092


@message
class Plain:
    low: Int32 = -1
    high: Int32 = -1


@request(key=999, versions="2-7", flexible="5+", latest_version_unstable=True)
class Sample:
    everywhere: Int16
    later: Annotated[Int32, since(3)] = -1
    earlier: Annotated[str, until(4), IGNORABLE] = ""
    middle: Annotated[bool, between(3, 6)] = True
    maybe: str | None = None
    maybe_later: Annotated[list[str] | None, null_since(4)]
    tagged: Annotated[Uuid, since(5), tag(3)] = Uuid.ZERO
    batches: Records | None = None
    inner: list[Inner] = fresh()
    one: Annotated[Inner, since(6)] = fresh()
    plain: Plain = fresh()


INT16, INT32 = Scalar("int16", "h", 2), Scalar("int32", "i", 4)


def test_annotations_are_read_as_fields() -> None:
    assert fields_of(Sample) == (
        Field("everywhere", INT16, EVERY, NEVER, None, False, REQUIRED),
        Field("later", INT32, range(3, EVERY.stop), NEVER, None, False, -1),
        Field("earlier", STRING, range(5), NEVER, None, True, ""),
        Field("middle", BOOL, range(3, 7), NEVER, None, False, True),
        Field("maybe", STRING, EVERY, EVERY, None, False, None),
        Field("maybe_later", Array(STRING), EVERY, range(4, EVERY.stop), None, False, REQUIRED),
        Field("tagged", UUID, range(5, EVERY.stop), NEVER, 3, False, Uuid.ZERO),
        Field("batches", RECORDS, EVERY, EVERY, None, False, None),
        Field("inner", Array(Struct(Inner)), EVERY, NEVER, None, False, FRESH),
        Field("one", Struct(Inner), range(6, EVERY.stop), NEVER, None, False, FRESH),
        Field("plain", Struct(Plain), EVERY, NEVER, None, False, FRESH),
    )


def test_the_decorator_keeps_key_versions_and_flexible_versions() -> None:
    assert declared(Sample) == (999, range(2, 8), range(5, EVERY.stop), True)
    with pytest.raises(TypeError, match="Inner is not a whole message"):
        declared(Inner)


def test_fields_without_a_default_must_be_given_and_others_need_not() -> None:
    made = Sample(everywhere=1, maybe_later=None)
    assert (made.later, made.middle, made.maybe, made.tagged) == (-1, True, None, Uuid.ZERO)
    assert made.plain == Plain()
    with pytest.raises(TypeError, match="everywhere"):
        Sample(maybe_later=None)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unheard_of"):
        Sample(everywhere=1, maybe_later=None, unheard_of=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Sample(1)  # type: ignore[call-arg, misc]


def test_a_default_list_or_struct_is_not_shared() -> None:
    sample, other = Sample(everywhere=1, maybe_later=None), Sample(everywhere=1, maybe_later=None)
    assert sample.inner == []
    assert sample.inner is not other.inner
    assert sample.one == Inner(name="", port=9092)
    assert sample.one is not other.one
    assert sample.plain is not other.plain


def test_messages_are_equal_by_value_and_only_within_their_class() -> None:
    assert Inner(name="a") == Inner(name="a")
    assert Inner(name="a") != Inner(name="b")
    assert Inner(name="a") != ("a", 9092)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Inner(name="a"))


def test_a_message_shows_its_fields() -> None:
    assert repr(Inner(name="a")) == "Inner(name='a', port=9092)"


def test_replace_changes_a_copy() -> None:
    before = Inner(name="a", port=1)
    assert replace(before, port=2) == Inner(name="a", port=2)
    assert before.port == 1
    with pytest.raises(TypeError, match="Inner has no field hosts"):
        replace(before, hosts=2)


def test_a_message_has_slots_and_no_dict() -> None:
    made = Inner(name="a")
    assert not hasattr(made, "__dict__")
    assert sys.getsizeof(made) <= 48


def test_messages_can_be_copied_and_pickled() -> None:
    made = Inner(name="a", port=1)
    assert copy.copy(made) == made
    assert copy.deepcopy(made) == made
    sys.modules.setdefault(Inner.__module__, sys.modules[__name__])
    assert pickle.loads(pickle.dumps(made)) == made


@data(versions="0", flexible="none")
class Empty:
    pass


def test_a_message_may_have_no_fields() -> None:
    assert fields_of(Empty) == ()
    assert Empty() == Empty()
    assert declared(Empty) == (-1, range(1), NEVER, False)


@pytest.mark.parametrize(
    ("text", "versions"),
    [("0", range(1)), ("3", range(3, 4)), ("2-5", range(2, 6)), ("4+", range(4, EVERY.stop)), ("none", NEVER)],
)
def test_version_ranges_are_written_as_kafka_writes_them(text: str, versions: range) -> None:
    assert parse_versions(text) == versions


def test_ranges_have_versions_in_common_or_not() -> None:
    assert common_versions(range(2, 6), range(4, 9)) == range(4, 6)
    assert common_versions(range(2, 4), range(4, 9)) == NEVER


def test_only_declared_classes_have_fields() -> None:
    with pytest.raises(TypeError, match="str is not declared"):
        fields_of(str)

"""The registry as clients know it: ids, versions, modes, deletions, and the code of every error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from coordinator.registry.played import PlayedRegistry, loaded, record
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.coordinator.registry.calls import Rest, call_of
from kavka.coordinator.registry.judging import judge

INT, LONG, TEXT = record(x="int"), record(x="long"), record(x="string")


@pytest.fixture
def registry() -> PlayedRegistry:
    return PlayedRegistry()


# -- registering --------------------------------------------------------------------------------------


def test_a_schema_gets_an_id_and_a_version_and_keeps_them(registry: PlayedRegistry) -> None:
    assert registry.register("s", INT) == 1
    assert registry.register("s", INT) == 1
    assert registry.register("s", LONG) == 2
    assert registry("GET", "/subjects/s/versions") == [1, 2]
    assert registry("GET", "/schemas/ids/2")["schema"] == json.dumps(LONG, separators=(",", ":"))
    assert len(registry.log) == 2


def test_one_schema_has_one_id_in_all_subjects(registry: PlayedRegistry) -> None:
    assert registry.register("a", INT) == registry.register("b", INT) == 1
    assert registry("GET", "/schemas/ids/1/subjects") == ["a", "b"]
    assert registry("GET", "/schemas/ids/1/versions") == [
        {"subject": "a", "version": 1},
        {"subject": "b", "version": 1},
    ]


def test_the_answer_names_everything_but_what_is_usual(registry: PlayedRegistry) -> None:
    registry.register("s", INT)
    answer = registry("GET", "/subjects/s/versions/latest")
    guid = answer.pop("guid")
    assert answer == {"subject": "s", "version": 1, "id": 1, "schema": json.dumps(INT, separators=(",", ":"))}
    assert registry("GET", f"/schemas/guids/{guid}")["schema"] == answer["schema"]
    assert registry("GET", f"/schemas/guids/{guid}/ids") == [{"context": ".", "id": 1}]


def test_a_guid_has_all_the_ids_of_its_schema(registry: PlayedRegistry) -> None:
    for subject, id_ in (("a", 9), ("b", 7), (":.north:c", 3)):
        registry("PUT", f"/mode/{subject}", {"mode": "IMPORT"})
        assert registry.register(subject, INT, id=id_, version=1) == id_
    guid = registry("GET", "/subjects/a/versions/1")["guid"]
    both = [{"context": ".", "id": 7}, {"context": ".", "id": 9}]
    assert registry("GET", f"/schemas/guids/{guid}/ids") == [*both, {"context": ".north", "id": 3}]
    registry("DELETE", "/subjects/b")
    registry("DELETE", "/subjects/b", permanent="true")
    assert registry("GET", f"/schemas/guids/{guid}/ids")[0] == {"context": ".", "id": 9}
    assert registry.register("d", INT) == 9


def test_a_schema_that_a_record_names_is_looked_for_under_subjects(registry: PlayedRegistry) -> None:
    id_, other = registry.register("s", INT), registry.register("t", TEXT)
    guid = bytes.fromhex(registry("GET", "/subjects/s/versions/1")["guid"].replace("-", ""))

    def registered(name: bytes, *subjects: str) -> bool:
        found: bool = registry("GET", f"/kavka/registered/{name.hex()}", subjects=json.dumps(subjects))
        return found

    by_id, by_guid = b"\x00" + id_.to_bytes(4, "big"), b"\x01" + guid
    for name in (by_id, by_guid):
        assert registered(name, "s")
        assert registered(name, "none", "s")
        assert not registered(name, "t")
        assert not registered(name, ":.north:s")
        assert not registered(name)
        assert not registered(name, "none\ns")  # a title may have any characters
    registry("PUT", "/mode/:.north:s", {"mode": "IMPORT"})
    registry.register(":.north:s", INT, id=id_, version=1)
    assert not registered(by_id, ":.north:s")
    assert not registered(b"\x00" + other.to_bytes(4, "big"), "s")
    assert not registered(b"\x01" + bytes(16), "s")
    registry("PUT", "/config/u", {"alias": "s"})
    assert registered(by_id, "u")
    registry("DELETE", "/subjects/s/versions/1")
    assert not registered(by_id, "s")
    assert not registered(by_guid, "s")
    assert registry("GET", "/kavka/registered/xyz") == 404


def test_what_is_not_compatible_is_refused_and_says_which_field(registry: PlayedRegistry) -> None:
    registry.register("s", INT)
    said = registry("POST", "/compatibility/subjects/s/versions/latest", {"schema": json.dumps(TEXT)}, verbose="true")
    assert said["is_compatible"] is False
    assert "/fields/0/type" in said["messages"][0]
    assert registry.register("s", TEXT) == 409
    assert registry("GET", "/subjects/s/versions") == [1]


@pytest.mark.parametrize(
    ("level", "accepted"),
    [
        ("NONE", ["int", "long", "string"]),
        ("BACKWARD", ["int", "long"]),
        ("FORWARD", ["long", "int"]),
        ("FULL", ["int"]),
        ("BACKWARD_TRANSITIVE", ["int", "long"]),
        ("FORWARD_TRANSITIVE", ["long", "int"]),
        ("FULL_TRANSITIVE", ["int"]),
    ],
)
def test_each_level_lets_pass_what_it_promises(registry: PlayedRegistry, level: str, accepted: list[str]) -> None:
    registry("PUT", "/config/s", {"compatibility": level})
    for type_ in ("int", "long", "string") if accepted[0] == "int" else ("long", "int", "string"):
        assert (registry.register("s", record(x=type_)) != 409) == (type_ in accepted)


def test_a_transitive_level_looks_at_all_versions(registry: PlayedRegistry) -> None:
    first, second, third = record(x="int"), record(x=("int", 0)), record()
    registry("PUT", "/config", {"compatibility": "FORWARD"})
    assert registry.register("s", first) == 1
    assert registry.register("s", second) == 2
    assert registry.register("s", third) == 3  # the latest has a default for x, the first has none
    registry("PUT", "/config", {"compatibility": "FORWARD_TRANSITIVE"})
    registry("DELETE", "/subjects/s/versions/3")
    assert registry.register("s", third) == 409


def test_another_format_is_not_compatible(registry: PlayedRegistry) -> None:
    registry.register("s", INT)
    assert registry.register("s", {"type": "object"}, "JSON") == 409


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, 42201),
        ({"schema": ""}, 42201),
        ({"schema": "{"}, 42201),
        ({"schema": '{"type":"record"}'}, 42201),
        ({"schema": '"string"', "schemaType": "XML"}, 42201),
        ({"schema": '"string"', "references": [{"name": "a"}]}, 42201),
        ({"schema": '"string"', "references": [{"name": "a", "subject": "none", "version": 1}]}, 42201),
        ({"schema": '"string"', "id": 5}, 42205),
        ({"schema": 7}, 42200),
        (["schema"], 42201),
    ],
)
def test_a_bad_request_is_an_error_and_changes_nothing(registry: PlayedRegistry, body: Any, code: int) -> None:
    assert registry("POST", "/subjects/s/versions", body) == code
    assert registry.log == []


def test_a_verdict_counts_only_for_what_it_was_judged_by(registry: PlayedRegistry) -> None:
    call = call_of(Rest("POST", "/subjects/s/versions", {}, {"schema": json.dumps(TEXT)}))
    case = registry.machine.case(call)
    verdict = judge(case.work)
    registry.register("s", INT)
    assert registry.machine.decided(call, case, verdict) is None


# -- looking up ---------------------------------------------------------------------------------------


def test_a_schema_is_found_by_what_it_says(registry: PlayedRegistry) -> None:
    registry.register("s", INT)
    assert registry("POST", "/subjects/s", {"schema": json.dumps(INT, indent=4)})["version"] == 1
    assert registry("POST", "/subjects/s", {"schema": json.dumps(LONG)}) == 40403
    assert registry("POST", "/subjects/none", {"schema": json.dumps(INT)}) == 40401


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/subjects/none/versions", 40401),
        ("/subjects/none/versions/1", 40401),
        ("/subjects/s/versions/2", 40402),
        ("/subjects/s/versions/0", 42202),
        ("/subjects/s/versions/x", 42202),
        ("/subjects/s/versions/" + "1" * 5000, 42202),
        ("/schemas/ids/9", 40403),
        ("/schemas/ids/9/subjects", 40403),
        ("/schemas/guids/none", 40403),
        ("/config/s", 40408),
        ("/mode/s", 40409),
        ("/nothing", 404),
        ("/subjects/s/versions/1/none", 404),
    ],
)
def test_what_is_not_there_has_its_code(registry: PlayedRegistry, path: str, code: int) -> None:
    registry.register("s", INT)
    assert registry("GET", path) == code


def test_a_method_that_a_path_does_not_have(registry: PlayedRegistry) -> None:
    assert registry("PATCH", "/subjects") == 405
    assert registry("PUT", "/subjects/s/versions") == 405


def test_lists_can_be_asked_for_in_pages_and_by_prefix(registry: PlayedRegistry) -> None:
    for name in ("a-key", "a-value", "b-value"):
        registry.register(name, INT)
    assert registry("GET", "/subjects", subjectPrefix="a-") == ["a-key", "a-value"]
    assert registry("GET", "/subjects", offset=1, limit=1) == ["a-value"]
    assert [each["subject"] for each in registry("GET", "/schemas", latestOnly="true", limit=2)] == ["a-key", "a-value"]


# -- deleting -----------------------------------------------------------------------------------------


def test_what_was_deleted_can_still_be_read_by_its_id(registry: PlayedRegistry) -> None:
    registry.register("s", INT)
    assert registry("DELETE", "/subjects/s") == [1]
    assert registry("GET", "/subjects") == []
    assert registry("GET", "/subjects", deleted="true") == ["s"]
    assert registry("GET", "/schemas/ids/1")["schema"]
    assert registry("DELETE", "/subjects/s") == 40404
    assert registry("DELETE", "/subjects/s", permanent="true") == [1]
    assert registry("GET", "/schemas/ids/1") == 40403
    assert registry("DELETE", "/subjects/s", permanent="true") == 40401


def test_versions_are_deleted_twice_before_they_are_gone(registry: PlayedRegistry) -> None:
    registry.register("s", INT)
    registry.register("s", LONG)
    assert registry("DELETE", "/subjects/s/versions/1", permanent="true") == 40407
    assert registry("DELETE", "/subjects/s/versions/1") == 1
    assert registry("DELETE", "/subjects/s/versions/1") == 40406
    assert registry("GET", "/subjects/s/versions") == [2]
    assert registry("GET", "/subjects/s/versions", deletedOnly="true") == [1]
    assert registry("DELETE", "/subjects/s/versions/1", permanent="true") == 1
    assert registry("GET", "/subjects/s/versions", deleted="true") == [2]
    assert registry("DELETE", "/subjects/s", permanent="true") == 40405


def test_an_id_is_never_given_out_twice(registry: PlayedRegistry) -> None:
    registry.register("s", INT)
    registry("DELETE", "/subjects/s")
    registry("DELETE", "/subjects/s", permanent="true")
    compacted = [
        entry for number, entry in enumerate(registry.log) if entry[0] not in {k for k, _ in registry.log[number + 1 :]}
    ]
    assert PlayedRegistry(compacted).register("t", LONG) == 2


def test_a_subject_that_comes_again_goes_on_after_its_last_version(registry: PlayedRegistry) -> None:
    registry.register("s", INT)
    registry("DELETE", "/subjects/s")
    assert registry.register("s", TEXT) == 2  # nothing living to be compatible with
    assert registry("GET", "/subjects/s/versions") == [2]


# -- references ---------------------------------------------------------------------------------------


def test_what_is_referred_to_cannot_be_deleted(registry: PlayedRegistry) -> None:
    registry.register("address", record("Address", street="string"))
    reference = {"name": "Address", "subject": "address", "version": 1}
    assert registry.register("person", record("Person", home="Address"), references=[reference]) == 2
    assert registry("GET", "/subjects/address/versions/1/referencedby") == [2]
    assert registry("DELETE", "/subjects/address") == 42206
    assert registry("DELETE", "/subjects/address/versions/1") == 42206
    assert registry("DELETE", "/subjects/person") == [1]
    assert registry("DELETE", "/subjects/address") == [1]


def test_what_is_referred_to_is_limited_in_all_for_each_name_is_read(registry: PlayedRegistry) -> None:
    registry.register("large", {"description": "x" * 900_000}, "JSON")

    def registered(count: int) -> Any:
        references = [{"name": f"r{number}", "subject": "large", "version": 1} for number in range(count)]
        return registry.register("s", {}, "JSON", references=references)

    assert registered(4) == 2
    assert registered(5) == 42201


def test_references_of_references_are_found(registry: PlayedRegistry) -> None:
    registry.register("a", record("A", x="int"))
    registry.register("b", record("B", a="A"), references=[{"name": "A", "subject": "a", "version": 1}])
    to_b = {"name": "B", "subject": "b", "version": 1}
    assert registry.register("c", record("C", b="B"), references=[to_b]) == 3
    assert registry("GET", "/schemas/ids/3")["references"] == [to_b]


# -- settings -----------------------------------------------------------------------------------------


def test_a_level_is_of_a_subject_or_of_all(registry: PlayedRegistry) -> None:
    assert registry("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    assert registry("PUT", "/config", {"compatibility": "full"}) == {"compatibility": "FULL"}
    assert registry("GET", "/config/s", defaultToGlobal="true") == {"compatibilityLevel": "FULL"}
    assert registry("PUT", "/config/s", {"compatibility": "NONE"}) == {"compatibility": "NONE"}
    assert registry("GET", "/config/s") == {"compatibilityLevel": "NONE"}
    assert registry("DELETE", "/config/s") == {"compatibilityLevel": "NONE"}
    assert registry("DELETE", "/config/s") == 40401
    assert registry("PUT", "/config", {"compatibility": "SOME"}) == 42203


def test_a_subject_that_is_read_only_changes_no_more(registry: PlayedRegistry) -> None:
    registry.register("s", INT)
    assert registry("PUT", "/mode/s", {"mode": "readonly"}) == {"mode": "READONLY"}
    assert registry.register("s", LONG) == 42205
    assert registry("DELETE", "/subjects/s") == 42205
    assert registry.register("t", LONG) == 2
    assert registry("DELETE", "/mode/s") == {"mode": "READONLY"}
    assert registry.register("s", LONG) == 2
    assert registry("PUT", "/mode", {"mode": "SOMETIMES"}) == 42204


def test_ids_and_versions_can_be_brought_along(registry: PlayedRegistry) -> None:
    registry.register("old", INT)
    assert registry("PUT", "/mode", {"mode": "IMPORT"}) == 42205
    assert registry("PUT", "/mode/s", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
    assert registry.register("s", LONG, id=77, version=3) == 77
    assert registry.register("s", TEXT, id=77, version=4) == 42205
    assert registry.register("s", TEXT) == 42205
    assert registry("GET", "/subjects/s/versions") == [3]
    registry("PUT", "/mode/s", {"mode": "READWRITE"})
    assert registry.register("new", TEXT) == 78


def test_a_list_of_large_schemas_is_short(registry: PlayedRegistry) -> None:
    for number in range(4):
        registry.register(f"s{number}", {**record(x="int"), "doc": str(number) * 900_000})
    assert [each["subject"] for each in registry("GET", "/schemas")] == ["s0", "s1"]
    assert [each["subject"] for each in registry("GET", "/schemas", offset=2)] == ["s2", "s3"]
    registry.register("t", {**record(x="int"), "doc": "t" * 3_000_000})
    assert [each["subject"] for each in registry("GET", "/schemas", offset=4)] == ["t"]


def test_a_version_that_is_there_is_never_overwritten(registry: PlayedRegistry) -> None:
    assert registry.register("s", INT, version=1) == 1
    assert registry.register("s", LONG, version=1) == 42201
    assert registry.register("s", LONG, version=2_147_483_647) == 42201
    assert registry.register("s", LONG, version=2) == 2
    registry("PUT", "/mode/s", {"mode": "IMPORT"}, force="true")
    assert registry.register("s", TEXT, id=9, version=2) == 42205
    assert registry.register("s", LONG, id=9, version=2) == 42205
    assert registry.register("s", LONG, id=2, version=2) == 2
    assert registry.register("s", TEXT, id=2_147_483_647, version=3) == 2_147_483_647
    assert registry.register("new", record(y="int")) == 42205
    assert loaded(registry.log).state.max_ids == registry.machine.state.max_ids


def test_a_context_has_ids_of_its_own(registry: PlayedRegistry) -> None:
    registry.register("s", INT)
    assert registry.register(":.other:s", LONG) == 1
    assert registry("GET", "/contexts") == [".", ".other"]
    assert registry("GET", "/contexts/.other/subjects/s/versions/1")["subject"] == ":.other:s"
    assert registry("GET", "/schemas/ids/1", subject=":.other:s")["schema"] == json.dumps(LONG, separators=(",", ":"))
    assert registry("GET", "/subjects", subjectPrefix="") == ["s"]
    assert registry("GET", "/subjects") == [":.other:s", "s"]


def test_an_alias_stands_for_a_subject(registry: PlayedRegistry) -> None:
    registry.register("s", INT)
    registry("PUT", "/config/other", {"alias": "s"})
    assert registry("GET", "/subjects/other/versions/1")["subject"] == "s"


def test_metadata_is_kept_and_found(registry: PlayedRegistry) -> None:
    registry.register("s", INT, metadata={"properties": {"major": "1"}})
    registry.register("s", LONG, metadata={"properties": {"major": "2"}})
    assert registry("GET", "/subjects/s/metadata", key="major", value="1")["version"] == 1
    assert registry("GET", "/subjects/s/metadata", key="major", value="3") == 40403


# -- the log ------------------------------------------------------------------------------------------


def test_the_log_is_in_the_form_that_confluent_s_registry_has(registry: PlayedRegistry) -> None:
    registry.register("s", '"string"')
    registry("PUT", "/config/s", {"compatibility": "NONE"})
    registry("PUT", "/mode", {"mode": "READONLY"})
    registry("PUT", "/mode", {"mode": "READWRITE"})
    registry("DELETE", "/subjects/s")
    assert registry.log[:3] == [
        (
            b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            b'{"subject":"s","version":1,"id":1,"schema":"\\"string\\"","deleted":false}',
        ),
        (
            b'{"keytype":"CONFIG","subject":"s","magic":0}',
            b'{"subject":"s","compatibilityLevel":"NONE"}',
        ),
        (b'{"keytype":"MODE","subject":null,"magic":0}', b'{"mode":"READONLY"}'),
    ]
    assert registry.log[4] == (
        b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}',
        b'{"subject":"s","version":1}',
    )


SUBJECTS = st.sampled_from(["a", "b", ":.c:a"])
VERSIONS = st.builds("{}/versions/{}".format, SUBJECTS, st.integers(1, 3))
SCHEMAS = st.sampled_from(["int", "long", "string", "double"]).map(lambda of: {"schema": json.dumps(record(x=of))})
LEVELS = st.sampled_from(["NONE", "FULL"]).map(lambda level: {"compatibility": level})
MODES = st.sampled_from(["READONLY", "READWRITE"]).map(lambda mode: {"mode": mode})
REQUESTS = st.one_of(
    st.tuples(st.just("POST"), SUBJECTS.map("/subjects/{}/versions".format), SCHEMAS),
    st.tuples(st.just("DELETE"), (SUBJECTS | VERSIONS).map("/subjects/{}".format), st.none()),
    st.tuples(st.just("PUT"), SUBJECTS.map("/config/{}".format), LEVELS),
    st.tuples(st.just("PUT"), st.sampled_from(["/mode", "/mode/a"]), MODES),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(REQUESTS, st.booleans()), max_size=25))
def test_a_new_leader_rebuilds_the_same_state_from_the_log(requests: list[Any]) -> None:
    registry = PlayedRegistry()
    ids: dict[tuple[str, int], str] = {}
    for (method, path, body), permanent in requests:
        registry(method, path, body, permanent=permanent)
        for context, id_ in registry.machine.state.ids:
            each = registry.machine.state.by_id(context, id_)
            assert each is not None
            assert ids.setdefault((context, id_), each.schema) == each.schema  # an id never means something else
    assert vars(loaded(registry.log).state) == vars(registry.machine.state)

"""What Confluent publishes of its REST API, question by question: parameters, scopes and the code of every error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from coordinator.registry.played import PlayedRegistry, loaded, record

INT, LONG, TEXT = record(x="int"), record(x="long"), record(x="string")
EVERYTHING = {"properties": {"owner": "shop", "tier": "gold"}}
RULE = {"name": "check", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}


@pytest.fixture
def registry() -> PlayedRegistry:
    return PlayedRegistry()


def sent(schema: Any, **more: Any) -> dict[str, Any]:
    return {"schema": json.dumps(schema), **more}


# -- compatibility ------------------------------------------------------------------------------------


def test_a_subject_that_is_not_there_is_compatible_with_everything(registry: PlayedRegistry) -> None:
    path = "/compatibility/subjects/none/versions"
    assert registry("POST", f"{path}/latest", sent(INT)) == {"is_compatible": True}
    assert registry("POST", path, sent(INT), verbose="true") == {"is_compatible": True, "messages": []}
    assert registry("POST", f"{path}/1", sent(INT)) == 40402
    assert registry("POST", f"{path}/0", sent(INT)) == 42202
    assert registry("POST", f"{path}/latest", {"schema": "{"}) == 42201


def test_a_version_is_compared_by_the_level_in_force_which_may_be_none(registry: PlayedRegistry) -> None:
    registry.register("s", INT)
    path = "/compatibility/subjects/s/versions/1"
    assert registry("POST", path, sent(TEXT)) == {"is_compatible": False}
    registry("PUT", "/config/s", {"compatibility": "NONE"})
    assert registry("POST", path, sent(TEXT)) == {"is_compatible": True}
    assert registry("POST", "/compatibility/subjects/s/versions/2", sent(TEXT)) == 40402
    registry("DELETE", "/subjects/s")
    assert registry("POST", path, sent(TEXT)) == 40402
    assert registry("POST", "/compatibility/subjects/s/versions/latest", sent(TEXT)) == {"is_compatible": True}


# -- lists --------------------------------------------------------------------------------------------


def test_subjects_of_all_contexts_are_listed_unless_one_is_named(registry: PlayedRegistry) -> None:
    for subject in ("a", "b", ":.c:a", ":.c:d"):
        registry.register(subject, INT)
    assert registry("GET", "/subjects") == [":.c:a", ":.c:d", "a", "b"]
    assert registry("GET", "/subjects", subjectPrefix="") == ["a", "b"]
    assert registry("GET", "/subjects", subjectPrefix=":*:") == [":.c:a", ":.c:d", "a", "b"]
    assert registry("GET", "/subjects", subjectPrefix=":*:a") == [":.c:a", "a"]
    assert registry("GET", "/subjects", subjectPrefix=":.c:") == [":.c:a", ":.c:d"]
    assert registry("GET", "/subjects", subjectPrefix=":.:a") == ["a"]
    assert registry("GET", "/contexts/c/subjects") == [":.c:a", ":.c:d"]
    assert registry("GET", "/contexts/:.c:/subjects", subjectPrefix="d") == [":.c:d"]
    assert [each["subject"] for each in registry("GET", "/schemas")] == ["a", "b"]
    assert [each["subject"] for each in registry("GET", "/contexts/.c/schemas")] == [":.c:a", ":.c:d"]
    assert registry("GET", "/contexts") == [".", ".c"]
    assert registry("GET", "/contexts", contextPrefix=".c") == [".c"]
    assert registry("GET", "/contexts", offset=1, limit=5) == [".c"]


def test_what_an_id_has_is_listed_in_pages(registry: PlayedRegistry) -> None:
    for subject in ("a", "b", "c"):
        registry.register(subject, INT)
    assert registry("GET", "/schemas/ids/1/subjects", offset=1, limit=1) == ["b"]
    assert registry("GET", "/schemas/ids/1/versions", offset=2) == [{"subject": "c", "version": 1}]
    registry("DELETE", "/subjects/b")
    assert registry("GET", "/schemas/ids/1/subjects") == ["a", "c"]
    assert registry("GET", "/schemas/ids/1/subjects", deleted="true") == ["a", "b", "c"]
    assert "subject" not in registry("GET", "/schemas/ids/1")
    assert registry("GET", "/schemas/ids/1", subject="a")["subject"] == "a"


def test_deleted_versions_are_listed_as_asked_for(registry: PlayedRegistry) -> None:
    registry.register("s", INT)
    registry.register("s", LONG)
    assert registry("GET", "/subjects/s/versions", deletedOnly="true") == []
    registry("DELETE", "/subjects/s/versions/1")
    assert registry("GET", "/subjects/s/versions", deletedOnly="true") == [1]
    assert registry("GET", "/subjects/s/versions", deletedAsNegative="true") == [-1, 2]
    registry("DELETE", "/subjects/s/versions/latest")
    assert registry("GET", "/subjects/s/versions") == 40401
    assert registry("GET", "/subjects/s/versions", deletedOnly="true") == [1, 2]


def test_a_subject_without_a_context_is_found_in_the_one_that_has_it(registry: PlayedRegistry) -> None:
    registry.register(":.c:s", INT)
    assert registry("GET", "/subjects/s/versions/ LATEST ")["subject"] == ":.c:s"
    assert registry("POST", "/subjects/s", sent(INT))["subject"] == ":.c:s"
    assert registry("GET", "/subjects/s/versions/2") == 40402
    assert registry("DELETE", "/subjects/s/versions/1") == 40401
    registry.register("s", LONG)
    assert registry("GET", "/subjects/s/versions/1")["subject"] == "s"


# -- metadata and rules -------------------------------------------------------------------------------


def test_the_latest_version_with_all_of_some_metadata_is_found(registry: PlayedRegistry) -> None:
    registry.register("s", INT, metadata=EVERYTHING)
    registry.register("s", LONG, metadata={"properties": {"owner": "shop", "tier": "a,b"}})

    def found(*pairs: tuple[str, str], **query: Any) -> Any:
        keys, values = zip(*pairs, strict=True)
        said = registry("GET", "/subjects/s/metadata", key="\n".join(keys), value="\n".join(values), **query)
        return said if isinstance(said, int) else said["version"]

    assert found(("owner", "shop")) == 2
    assert found(("owner", "shop"), ("tier", "gold")) == 1
    assert found(("tier", "a,b")) == 2
    assert found(("owner", "shop"), ("tier", "tin")) == 40403
    assert registry("GET", "/subjects/none/metadata", key="a", value="b") == 40401
    registry("DELETE", "/subjects/s")
    assert found(("owner", "shop")) == 40401
    assert found(("owner", "shop"), deleted="true") == 2


def test_metadata_and_rules_go_from_version_to_version(registry: PlayedRegistry) -> None:
    rules = {"domainRules": [RULE]}
    assert registry.register("s", INT, metadata=EVERYTHING, ruleSet=rules) == 1
    assert registry.register("s", INT) == 1
    assert registry("POST", "/subjects/s", sent(INT))["version"] == 1
    assert registry.register("s", LONG) == 2
    latest = registry("GET", "/subjects/s/versions/latest")
    assert (latest["metadata"], latest["ruleSet"]) == (EVERYTHING, rules)
    assert registry.register("s", LONG, metadata={}, ruleSet={}) == 3
    assert {"metadata", "ruleSet"}.isdisjoint(registry("GET", "/subjects/s/versions/latest"))
    assert registry("POST", "/subjects/s", sent(LONG, metadata=EVERYTHING, ruleSet=rules))["version"] == 2
    assert vars(loaded(registry.log).state) == vars(registry.machine.state)


def test_the_latest_schema_is_registered_again_with_other_metadata(registry: PlayedRegistry) -> None:
    assert registry.register("s", "", metadata=EVERYTHING) == 42201
    registry.register("s", INT)
    assert registry.register("s", "", metadata=EVERYTHING) == 2
    latest = registry("GET", "/subjects/s/versions/2")
    assert (json.loads(latest["schema"]), latest["metadata"]) == (INT, EVERYTHING)


def test_what_is_configured_is_put_into_what_is_registered(registry: PlayedRegistry) -> None:
    other = {**RULE, "name": "other"}
    config = {
        "defaultMetadata": {"properties": {"owner": "nobody", "site": "here"}, "sensitive": ["owner"]},
        "overrideMetadata": {"properties": {"tier": "tin"}},
        "defaultRuleSet": {"domainRules": [other, {**RULE, "doc": "the usual one"}]},
    }
    registry("PUT", "/config/s", config)
    registry.register("s", INT, metadata=EVERYTHING, ruleSet={"domainRules": [RULE]})
    latest = registry("GET", "/subjects/s/versions/latest")
    assert latest["metadata"] == {
        "properties": {"owner": "shop", "site": "here", "tier": "tin"},
        "sensitive": ["owner"],
    }
    assert latest["ruleSet"] == {"domainRules": [other, RULE]}
    assert registry("POST", "/subjects/s", sent(INT))["version"] == 1
    assert [each["subject"] for each in registry("GET", "/schemas", ruleType="CEL")] == ["s"]
    assert registry("GET", "/schemas", ruleType="ENCRYPT") == []
    assert registry.register(":.c:s", INT) == 1
    assert "metadata" not in registry("GET", "/subjects/:.c:s/versions/1")


@pytest.mark.parametrize(
    "rules",
    [
        {"domainRules": {}, "migrationRules": [7]},
        {"domainRules": "CEL"},
        {"domainRules": [{**RULE, "name": "1st"}]},
        {"domainRules": [{**RULE, "name": None}]},
        {"domainRules": [{**RULE, "type": None}]},
        {"domainRules": [{**RULE, "mode": "UPGRADE"}]},
        {"migrationRules": [{**RULE, "mode": None}]},
        {"domainRules": [RULE], "encodingRules": [RULE]},
    ],
)
def test_rules_that_are_none_are_refused(registry: PlayedRegistry, rules: Any) -> None:
    assert registry.register("s", INT, ruleSet=rules) == 42210
    assert registry("PUT", "/config", {"defaultRuleSet": rules}) == 42210
    assert registry.log == []


# -- settings -----------------------------------------------------------------------------------------


def test_a_setting_is_added_and_taken_back(registry: PlayedRegistry) -> None:
    registry("PUT", "/config/s", {"compatibility": "FULL"})
    assert registry("PUT", "/config/s", {"normalize": True}) == {"compatibility": "FULL", "normalize": True}
    assert registry("PUT", "/config/s", {"normalize": None}) == {"compatibility": "FULL"}
    assert registry("PUT", "/config/s", {"compatibility": None}) == {}
    assert registry("GET", "/config/s", defaultToGlobal="true") == {"compatibilityLevel": "BACKWARD"}


def test_the_default_context_is_all(registry: PlayedRegistry) -> None:
    assert registry("PUT", "/config/:.:", {"compatibility": "FULL"}) == {"compatibility": "FULL"}
    assert registry("GET", "/config") == registry("GET", "/config/:.:") == {"compatibilityLevel": "FULL"}
    assert registry("PUT", "/mode/:.:", {"mode": "READONLY"}) == {"mode": "READONLY"}
    assert registry("GET", "/mode") == {"mode": "READONLY"}


def test_settings_of_what_is_read_only_stay(registry: PlayedRegistry) -> None:
    registry("PUT", "/config/s", {"compatibility": "FULL"})
    registry("PUT", "/mode/s", {"mode": "READONLY"})
    assert registry("PUT", "/config/s", {"compatibility": "NONE"}) == 42205
    assert registry("DELETE", "/config/s") == 42205
    assert registry("PUT", "/config", {"compatibility": "NONE"}) == {"compatibility": "NONE"}
    registry("PUT", "/mode", {"mode": "READONLY"})
    assert registry("PUT", "/config", {"compatibility": "FULL"}) == 42205


def test_modes_of_a_context_are_deleted_with_those_below(registry: PlayedRegistry) -> None:
    for scope in (":.c:", ":.c:a", "a", "b"):
        registry("PUT", f"/mode/{scope}", {"mode": "READONLY"})
    assert registry("DELETE", "/mode/:.c:", recursive="true") == {"mode": "READONLY"}
    assert registry("GET", "/mode/:.c:a") == 40409
    assert registry("DELETE", "/mode/:.c:") == 40401
    assert registry("DELETE", "/mode/:.c:", recursive="true") == {"mode": None}
    assert registry("DELETE", "/mode/a", recursive="true") == {"mode": "READONLY"}
    assert registry("GET", "/mode/b") == {"mode": "READONLY"}
    assert registry("DELETE", "/mode", recursive="true") == {"mode": "READWRITE"}
    assert registry("GET", "/mode/b") == 40409


def test_what_was_deleted_is_not_in_the_way_of_what_is_brought_along(registry: PlayedRegistry) -> None:
    registry.register("s", INT)
    registry.register("other", LONG)
    registry("DELETE", "/subjects/s")
    assert registry("PUT", "/mode/s", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
    assert registry("GET", "/subjects/s/versions", deleted="true") == 40401
    assert registry.register("s", TEXT, id=1, version=1) == 1
    assert registry("GET", "/subjects/other/versions") == [1]
    registry("PUT", "/mode/s", {"mode": "READWRITE"})
    assert registry.register("new", record(y="int")) == 3
    assert registry("PUT", "/mode/:.c:", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
    assert vars(loaded(registry.log).state) == vars(registry.machine.state)


@pytest.mark.parametrize("name", ["__GLOBAL", "__EMPTY", ":.c:__GLOBAL", "a%00b", "a%0Ab", "a%7F"])
def test_some_names_are_no_subjects(registry: PlayedRegistry, name: str) -> None:
    assert registry.register(name, INT) == 42208
    assert registry("PUT", f"/config/{name}", {"compatibility": "NONE"}) == 42208
    assert registry("PUT", f"/mode/{name}", {"mode": "READONLY"}) == 42208


def test_clients_may_say_what_is_there_in_any_mode(registry: PlayedRegistry) -> None:
    registry.register("s", INT)
    for mode in ("READONLY", "IMPORT"):
        assert registry("PUT", "/mode/s", {"mode": mode}, force="true") == {"mode": mode}
        assert registry.register("s", INT) == 1
        assert registry.register("s", LONG) == 42205
    assert registry("PUT", "/mode/s", {"mode": None}) == {"mode": None}
    assert registry.register("s", LONG) == 2
    assert registry("PUT", "/mode/s", {}) == 42204


def test_what_is_brought_along_is_kept_as_it_is(registry: PlayedRegistry) -> None:
    field = {"name": "f", "type": "string", "zprop": "z", "aprop": "a"}
    schema = {"type": "record", "name": "R", "fields": [field]}
    text = json.dumps(schema, separators=(",", ":"))
    registry("PUT", "/config", {"normalize": True})
    registry("PUT", "/mode/s", {"mode": "IMPORT"})
    registry("POST", "/subjects/s/versions", {"schema": text, "id": 5, "version": 1}, normalize="true")
    assert registry("GET", "/subjects/s/versions/1/schema") == text
    registry.register("t", schema)
    assert list(json.loads(registry("GET", "/subjects/t/versions/1/schema"))["fields"][0])[2:] == ["aprop", "zprop"]


# -- references ---------------------------------------------------------------------------------------


def test_versions_of_one_subject_that_refer_to_each_other_go_together(registry: PlayedRegistry) -> None:
    registry("PUT", "/config/s", {"compatibility": "NONE"})
    registry.register("s", record("A", x="int"))
    registry.register("s", record("B", a="A"), references=[{"name": "A", "subject": "s", "version": 1}])
    assert registry("DELETE", "/subjects/s/versions/1") == 42206
    assert registry("DELETE", "/subjects/s") == [1, 2]
    assert registry("DELETE", "/subjects/s", permanent="true") == [1, 2]


def test_a_deleted_version_that_comes_again_is_replaced_unless_something_refers_to_it(
    registry: PlayedRegistry,
) -> None:
    registry("PUT", "/config", {"compatibility": "NONE"})
    for subject in ("s", "a"):
        registry.register(subject, record("A", x="int"))
        registry.register(subject, record("B", x="int"))
    to_a = [{"name": "A", "subject": "a", "version": 1}]
    registry.register("b", record("C", a="A"), references=to_a)
    registry("DELETE", "/subjects/b")
    for subject, left in (("s", [2, 3]), ("a", [1, 2, 3])):
        registry("DELETE", f"/subjects/{subject}")
        assert registry.register(subject, record("A", x="int")) == 1
        assert registry("GET", f"/subjects/{subject}/versions", deleted="true") == left
        assert registry("GET", f"/subjects/{subject}/versions") == [3]
    assert vars(loaded(registry.log).state) == vars(registry.machine.state)


def test_what_a_deleted_schema_refers_to_stays_as_long_as_it_can_be_read(registry: PlayedRegistry) -> None:
    registry.register("a", record("A", x="int"))
    registry.register("b", record("B", a="A"), references=[{"name": "A", "subject": "a", "version": 1}])
    registry("DELETE", "/subjects/b")
    assert registry("GET", "/subjects/a/versions/1/referencedby") == []
    assert registry("GET", "/subjects/a/versions/1/referencedby", deleted="true") == [2]
    assert registry("DELETE", "/subjects/a") == [1]
    assert registry("DELETE", "/subjects/a", permanent="true") == 42206
    assert registry("DELETE", "/subjects/a/versions/1", permanent="true") == 42206
    assert registry("PUT", "/mode/a", {"mode": "IMPORT"}) == 42206
    assert registry("DELETE", "/subjects/b", permanent="true") == [1]
    assert registry("DELETE", "/subjects/a", permanent="true") == [1]


# -- the rest -----------------------------------------------------------------------------------------


def test_a_registry_says_what_it_is(registry: PlayedRegistry) -> None:
    assert registry("GET", "/") == registry("POST", "/", {"any": "thing"}) == {}
    assert registry("HEAD", "/") == {}
    assert set(registry("GET", "/schemas/types")) == {"AVRO", "JSON", "PROTOBUF"}
    assert registry("GET", "/v1/metadata/id")["scope"]["clusters"]["schema-registry-cluster"] == "schema-registry"
    assert set(registry("GET", "/v1/metadata/version")) == {"version", "commitId"}
    assert registry("GET", "/v1/metadata/deployment") == {"attributes": []}

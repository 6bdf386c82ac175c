"""The table of APIs against the schemas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kavka.protocol.schemas
from kavka.model.errors import InvalidRequest
from kavka.protocol.registry import API, OURS, ApiKey, api
from kavka.protocol.schema import EVERY, NEVER, declared


def test_kafka_has_89_apis_and_each_has_a_name() -> None:
    assert len(API) == 89 + len(OURS)
    assert {key.value: key.name for key in ApiKey} == {each.key: each.stem.upper() for each in API.values()}


@pytest.mark.parametrize("key", sorted(API))
def test_the_table_is_what_the_schemas_say(key: int) -> None:
    each = API[key]
    versions = range(each.min_version, each.max_version + 1)
    flexible = NEVER if each.flexible_from is None else range(each.flexible_from, EVERY.stop)
    assert each.key == key
    assert declared(each.request()) == (key, versions, flexible, each.latest_version_unstable)
    assert declared(each.response()) == (key, versions, flexible, False)
    assert (each.request().__name__, each.response().__name__) == (f"{each.name}Request", f"{each.name}Response")


def test_every_schema_module_is_in_the_table() -> None:
    (folder,) = kavka.protocol.schemas.__path__
    others = {"__init__", "control_records", "default_principal_data"}  # what is in records and envelopes
    modules = {path.stem for path in Path(folder).glob("*.py")} - others
    assert modules == {each.stem for each in API.values()}


@pytest.mark.parametrize(
    ("key", "version", "request_header", "response_header"),
    [
        (ApiKey.METADATA, 8, 1, 0),
        (ApiKey.METADATA, 9, 2, 1),
        (ApiKey.API_VERSIONS, 2, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),
        (ApiKey.SASL_HANDSHAKE, 1, 1, 0),
        (ApiKey.VOTE, 0, 2, 1),
    ],
)
def test_header_versions_follow_the_flexible_versions(
    key: ApiKey, version: int, request_header: int, response_header: int
) -> None:
    assert API[key].request_header_version(version) == request_header
    assert API[key].response_header_version(version) == response_header


def test_only_the_highest_version_of_init_producer_id_is_unstable() -> None:
    assert [each.name for each in API.values() if each.latest_version_unstable] == ["InitProducerId"]


def test_listeners_are_known_for_each_api() -> None:
    assert API[ApiKey.PRODUCE].listeners == {"broker"}
    assert API[ApiKey.VOTE].listeners == {"controller"}
    assert API[ApiKey.FETCH].listeners == {"broker", "controller"}


def test_a_key_that_is_none_is_an_invalid_request() -> None:
    assert api(0).name == "Produce"
    for key in (4, 7, -1, 94):
        with pytest.raises(InvalidRequest, match=f"no API with key {key}"):
            api(key)


def test_the_table_costs_no_import_of_a_schema() -> None:
    program = "import sys, kavka.protocol.header; print([n for n in sys.modules if 'protocol.schemas' in n])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

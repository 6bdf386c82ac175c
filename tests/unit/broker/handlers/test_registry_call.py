"""RegistryCall: what another node hands on is answered by the node that decides."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kavka.broker.handlers.registry_call import registry_call
from kavka.coordinator.registry.calls import Call, RegistryError, Reply
from kavka.model.errors import NotCoordinator
from kavka.protocol.schemas.registry_call import QueryParameter, RegistryCallRequest
from kavka.runtime.registry import Reach, RegistryService


async def at_once(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


class Registry(RegistryService):
    """Says what it was asked."""

    def __init__(self, error: Exception | None = None) -> None:
        nowhere: Any = None
        super().__init__(nowhere, Reach(1, nowhere, nowhere, nowhere, at_once))
        self.error = error
        self.asked: list[Call] = []

    async def decide(self, call: Call) -> Reply:
        self.asked.append(call)
        if self.error is not None:
            raise self.error
        return Reply(200, {"id": 7})


class Door:
    """Leads to a registry at once."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    async def open(self) -> Registry:
        return self.registry


@pytest.fixture
def handed_on(ask: Any) -> Any:
    def call(registry: Registry, **fields: Any) -> Any:
        said = {"method": "GET", "path": "/subjects/s/versions", "query": [], "body": None, **fields}
        return ask(registry_call, RegistryCallRequest(**said), 0, Door(registry))

    return call


def test_a_request_arrives_as_it_was_sent(handed_on: Any) -> None:
    registry = Registry()
    query = [QueryParameter(name="normalize", value="true")]
    answer = handed_on(registry, method="POST", query=query, body=b'{"schema":"x"}')
    assert (answer.error_code, answer.status, json.loads(answer.body)) == (0, 200, {"id": 7})
    (call,) = registry.asked
    assert (call.name, call.arguments, call.query, call.body) == (
        "register",
        {"subject": "s"},
        {"normalize": "true"},
        {"schema": "x"},
    )


def test_an_error_of_the_registry_is_an_answer(handed_on: Any) -> None:
    answer = handed_on(Registry(RegistryError(40401, "Subject 's' not found.")))
    assert (answer.error_code, answer.status) == (0, 404)
    assert json.loads(answer.body) == {"error_code": 40401, "message": "Subject 's' not found."}


def test_a_path_that_there_is_not_is_one_too(handed_on: Any) -> None:
    assert handed_on(Registry(), path="/nothing").status == 404


def test_a_node_that_does_not_decide_says_so(handed_on: Any) -> None:
    with pytest.raises(NotCoordinator):
        handed_on(Registry(NotCoordinator("another node leads it")))


@pytest.mark.parametrize("body", [b"", b"{", b"\xfe\xff\xfe", b"[" * 100_000, b"9" * 5000, b'{"schema":"\\ud800"}'])
def test_a_body_that_is_not_json_is_refused(handed_on: Any, body: bytes) -> None:
    answer = handed_on(Registry(), method="POST", body=body)
    assert (answer.error_code, answer.status) == (0, 400)
    assert json.loads(answer.body) == {"error_code": 400, "message": "the body is not JSON"}

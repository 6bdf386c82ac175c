"""A registry with a list for its log: requests as HTTP has them, answers as clients see them."""

from __future__ import annotations

import json
from typing import Any

from kavka.coordinator.record import Unknown
from kavka.coordinator.registry.calls import RegistryError, Rest, call_of
from kavka.coordinator.registry.judging import judge
from kavka.coordinator.registry.machine import JUDGED, Registry
from kavka.coordinator.registry.reading import QUESTIONS
from kavka.coordinator.registry.records import RegistryCodec

Log = list[tuple[bytes, bytes | None]]


def loaded(log: Log) -> Registry:
    """A registry out of a log."""
    machine = Registry()
    for offset, (key, value) in enumerate(log):
        record = RegistryCodec().decode(key, value)
        assert not isinstance(record, Unknown), record
        machine.replay(record, offset)
    return machine


class PlayedRegistry:
    """Asks the machine as the node does, and writes down what it decides."""

    def __init__(self, log: Log | None = None) -> None:
        self.log: Log = log or []
        self.machine = loaded(self.log)

    def __call__(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The body of the answer, or the code of the error."""
        try:
            return self.ask(method, path, body, **query)
        except RegistryError as error:
            return error.code

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The body of the answer; raises RegistryError."""
        call = call_of(Rest(method, path, {name: str(value) for name, value in query.items()}, body))
        if call.name in QUESTIONS:
            return self.machine.answer(call).body
        if call.name in JUDGED:
            case = self.machine.case(call)
            transition = self.machine.decided(call, case, judge(case.work))
            assert transition is not None
        else:
            transition = self.machine.change(call)
        for record in transition.records:
            self.log.append(RegistryCodec().encode(record))
            self.machine.replay(record, len(self.log) - 1)
        return transition.reply.body  # type: ignore[union-attr]

    def register(self, subject: str, schema: Any, schema_type: str = "AVRO", **more: Any) -> Any:
        """Register a schema: an object for Avro and JSON, a text for protobuf; its id, or the code of the error."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        answer = self("POST", f"/subjects/{subject}/versions", {"schema": text, "schemaType": schema_type, **more})
        return answer if isinstance(answer, int) else answer["id"]


def record(name: str = "R", **fields: Any) -> dict[str, Any]:
    """An Avro record; a field is a type, or a type and its default."""
    made = []
    for field, said in fields.items():
        type_, default = said if isinstance(said, tuple) else (said, ...)
        made.append({"name": field, "type": type_} | ({} if default is ... else {"default": default}))
    return {"type": "record", "name": name, "fields": made}

"""How a request is refused as a whole: every API at every version, beside what Kafka's request classes say."""

from __future__ import annotations

from typing import Any

from jvm.java_tools import Java

from kavka.model.errors import ClusterAuthorizationFailed
from kavka.model.types import Uuid
from kavka.protocol.compiler import decode, encode
from kavka.protocol.refusal import refusal
from kavka.protocol.registry import API, OURS
from kavka.protocol.schema import Array, Struct, WireType, build_default, fields_of

OURS_IS_SHORTER = {
    "AlterPartitionReassignments": "Kafka says the error at the top and in each row",
    "DescribeUserScramCredentials": "Kafka adds rows without names",
    "ElectLeaders": "Kafka says the error at the top and in each row",
    "ListPartitionReassignments": "Kafka adds rows without contents",
    "Metadata": "from v13 Kafka says the error at the top and in each row",
}
DIFFERS = {
    "CreateDelegationToken": "Kafka names an anonymous owner",
    "DescribeTransactions": "an unknown producer epoch is -1 here and 0 there",
    "Fetch": "served from the frame, and refused there",
    "OffsetFetch": "v1: metadata is null here and empty there",
    "StreamsGroupHeartbeat": "lists of tasks that were not given are null here",
}
UNREADABLE = {"DeleteAcls"}  # Kafka does not read the numbers that stand for types here


class Filler:
    """Fills messages with values that are all different."""

    def __init__(self) -> None:
        self.count = 0

    def message(self, cls: type, version: int) -> Any:
        built: Any = build_default(cls)
        for field in fields_of(cls):
            if version in field.versions:
                setattr(built, field.name, self.value(field.type, version))
        return built

    def value(self, kind: WireType, version: int) -> object:
        if isinstance(kind, Array):
            return [self.value(kind.element, version) for _ in range(2)]
        if isinstance(kind, Struct):
            return self.message(kind.cls, version)
        self.count += 1
        return {
            "bool": False,
            "string": f"name-{self.count}",
            "bytes": b"",
            "records": b"",
            "uuid": Uuid(self.count.to_bytes(16, "big")),
            "float64": 1.0,
        }.get(kind.name, self.count % 100)


def without_messages(message: Any) -> Any:
    """The same without error messages and without an order of rows: Kafka builds some from hash maps."""
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if field.name == "error_message":
            setattr(message, field.name, None)
        elif isinstance(value, list):
            for item in value:
                if hasattr(item, "__fields__"):
                    without_messages(item)
            value.sort(key=repr)
    return message


def test_every_request_is_refused_as_kafka_refuses_it(java: Java) -> None:
    filler = Filler()
    cases = [
        (api, version, filler.message(api.request(), version))
        for api in (one for key, one in API.items() if key not in OURS)
        if api.name not in DIFFERS and api.name not in UNREADABLE
        for version in range(api.min_version, api.max_version + 1)
    ]
    lines = [
        f"{api.key} {version} {ClusterAuthorizationFailed.code} {bytes(encode(request, version)).hex()}\n"
        for api, version, request in cases
    ]
    answers = java.run("kavka.compat.Refusals", [], stdin="".join(lines).encode()).must_succeed().lines
    different = []
    for (api, version, request), answer in zip(cases, answers, strict=True):
        theirs = without_messages(decode(api.response(), bytes.fromhex(answer), version))
        encoded = bytes(encode(refusal(request, version, ClusterAuthorizationFailed()), version))
        ours = without_messages(decode(api.response(), encoded, version))
        if ours != theirs and not (api.name in OURS_IS_SHORTER and ours.error_code == theirs.error_code != 0):
            different.append(f"{api.name} v{version}\n  ours:  {ours}\n  Kafka: {theirs}")
    assert not different, "\n".join(different)

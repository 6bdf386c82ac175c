"""The schema registry: ids are of one schema each and none is left out, and what was acknowledged stays so.

Any node is asked. As with offsets, a node that led and has not heard of its successor may tell what was true before:
readers hold against the registry only what all replicas of its log could know.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import count
from typing import Any, ClassVar, Final, NamedTuple

from kavka.metadata.names import SCHEMAS
from kavka.model.errors import NetworkException
from kavka.testing.sim.client import SimClient, Workload
from kavka.testing.sim.registry import REGISTRY_PORT, Answer, ask

FORMATS: Final = ("AVRO", "JSON", "PROTOBUF")
PATIENCE_S: Final = 5.0
GONE: Final = frozenset({40401, 40402, 40406})
"""What somebody is told who deletes what an earlier try has deleted."""
INCOMPATIBLE: Final = 409


class Moment(NamedTuple):
    """When something was acknowledged, and the highest leader epoch that a node had heard of by then."""

    ended: float
    epoch: int


class Version:
    """A version of a subject that was acknowledged."""

    def __init__(self, number: int, id_: int, text: str, when: Moment, *, sure: bool) -> None:
        self.number = number
        self.id = id_
        self.text = text
        self.when = when
        self.sure = sure
        """Whether no earlier try is on its way still: it could register again what is deleted meanwhile."""
        self.deleting = False
        self.deleted: Moment | None = None


class Schemas(Workload):
    """Writers, each with a subject of its own that evolves, and readers who go from node to node."""

    share = 0.5
    settings: ClassVar = {"kavka.registry.listener": f"0.0.0.0:{REGISTRY_PORT}"}

    def __init__(self) -> None:
        self._subjects: dict[str, list[Version]] = {f"{kind.lower()}-value": [] for kind in FORMATS}
        self._texts: dict[int, str] = {}
        self._reads = 0
        self._refused = 0
        self._faults: list[str] = []

    async def run(self, client: SimClient) -> None:
        """Register, delete, and look."""
        async with asyncio.TaskGroup() as tasks:
            for kind, subject in zip(FORMATS, self._subjects, strict=True):
                tasks.create_task(self._write(client, kind, subject))
            for _ in range(2):
                tasks.create_task(self._read(client))

    async def _write(self, client: SimClient, kind: str, subject: str) -> None:
        versions = self._subjects[subject]
        for number in count(1):
            if not client.busy:
                return
            act = client.chance.random()
            if act < 0.15 and versions:
                await self._misfit(client, kind, subject, number)
            elif act < 0.3 and (old := [each for each in versions[:-1] if each.sure and not each.deleting]):
                await self._delete(client, subject, client.chance.choice(old))
            else:
                await self._register(client, kind, subject, number)
            await asyncio.sleep(client.chance.uniform(0.02, 0.4))

    async def _register(self, client: SimClient, kind: str, subject: str, number: int) -> None:
        text = schema(kind, subject, number)
        body = {"schema": text, "schemaType": kind}
        sure = True
        while (said := await self._ask(client, "POST", f"/subjects/{subject}/versions", body)) is None:
            sure = False
        if said.status != 200:
            self._faults.append(f"{subject}: schema {number} is refused: {said}")
            return
        id_, version = said.body["id"], said.body["version"]
        if self._texts.setdefault(id_, text) != text:
            self._faults.append(f"id {id_} is of {self._texts[id_]} and of {text}")
        self._subjects[subject].append(Version(version, id_, text, moment(client), sure=sure))

    async def _misfit(self, client: SimClient, kind: str, subject: str, number: int) -> None:
        body = {"schema": schema(kind, subject, number, misfit=True), "schemaType": kind}
        said = await self._ask(client, "POST", f"/subjects/{subject}/versions", body)
        if said is not None:
            self._refused += 1
            if said.status != INCOMPATIBLE:
                self._faults.append(f"{subject}: a schema that does not fit gets {said}")

    async def _delete(self, client: SimClient, subject: str, version: Version) -> None:
        version.deleting = True
        while (said := await self._ask(client, "DELETE", f"/subjects/{subject}/versions/{version.number}")) is None:
            pass
        if said.status != 200 and said.body["error_code"] not in GONE:
            self._faults.append(f"{subject}: version {version.number} cannot be deleted: {said}")
        version.deleted = moment(client)

    async def _read(self, client: SimClient) -> None:
        while client.busy:
            subject = client.chance.choice(list(self._subjects))
            began, before = client.now, epochs(client)
            said = await self._ask(client, "GET", f"/subjects/{subject}/versions")
            if said is not None:
                self._reads += 1
                known = min([*before, *epochs(client)], default=-1)
                self._compare(subject, said.body if said.status == 200 else [], Moment(began, known))
            await asyncio.sleep(client.chance.uniform(0.01, 0.2))

    def _compare(self, subject: str, found: Sequence[int], began: Moment) -> None:
        for version in self._subjects[subject]:
            where = f"{subject} version {version.number}, read from {began.ended:.3f} s on"
            if not version.deleting and before(version.when, began) and version.number not in found:
                self._faults.append(f"{where}: registered at {version.when.ended:.3f} s, and it is not there")
            if version.deleted is not None and before(version.deleted, began) and version.number in found:
                self._faults.append(f"{where}: deleted at {version.deleted.ended:.3f} s, and it is there")

    async def finish(self, client: SimClient) -> None:
        """See that all of it is there, and by which ids."""
        texts: defaultdict[int, set[str]] = defaultdict(set)
        for subject, versions in self._subjects.items():
            if not versions:
                continue
            live = (await self._insist(client, f"/subjects/{subject}/versions")).body
            self._compare(subject, live, Moment(client.now, max(epochs(client), default=-1)))
            for number in (await self._insist(client, f"/subjects/{subject}/versions?deleted=true")).body:
                path = f"/subjects/{subject}/versions/{number}?deleted=true"
                said = (await self._insist(client, path)).body
                texts[said["id"]].add(said["schema"])
            for version in versions:
                if texts[version.id] != {version.text}:
                    self._faults.append(f"id {version.id} was of {version.text} and is of {texts[version.id]}")
        if sorted(texts) != list(range(1, len(texts) + 1)):
            self._faults.append(f"ids are left out: {sorted(texts)}")

    async def _insist(self, client: SimClient, path: str) -> Answer:
        while (said := await self._ask(client, "GET", path)) is None:
            pass
        return said

    async def _ask(self, client: SimClient, method: str, path: str, body: Any = None) -> Answer | None:
        """Ask a node by chance; None if it gives no answer that says how it is."""
        node = client.chance.choice(client.cluster.nodes)
        try:
            async with asyncio.timeout(PATIENCE_S):
                said = await ask(partial(client.connect, node), method, path, body)
        except (TimeoutError, NetworkException):
            said = None
        if said is None or said.status >= 500:
            await asyncio.sleep(client.chance.uniform(0.05, 0.2))
            return None
        return said

    def faults(self) -> Iterable[str]:
        """What was lost, came back, or has the wrong id."""
        return self._faults

    def counts(self) -> dict[str, int]:
        """How much was done."""
        registered = sum(map(len, self._subjects.values()))
        return {"registered schemas": registered, "refused schemas": self._refused, "reads of schemas": self._reads}


def schema(kind: str, subject: str, number: int, *, misfit: bool = False) -> str:
    """A schema of so many fields: each goes with those before it, unless it shall not."""
    name = subject.partition("-")[0].capitalize()
    first = "int" if misfit else "string"
    names = [f"f{index}" for index in range(number)]
    if kind == "AVRO":
        kinds = [first] + ["string"] * (number - 1)
        fields: Any = [
            {"name": name, "type": kind, "default": "" if kind == "string" else 0}
            for name, kind in zip(names, kinds, strict=True)
        ]
        return json.dumps({"type": "record", "name": name, "fields": fields}, separators=(",", ":"))
    if kind == "JSON":
        fields = {name: {"type": "string"} for name in names}
        fields["f0"] = {"type": "integer" if misfit else "string"}
        whole = {"type": "object", "title": name, "properties": fields, "additionalProperties": False}
        return json.dumps(whole, separators=(",", ":"))
    kinds = ["int32" if misfit else "string"] + ["string"] * (number - 1)
    lines = "".join(f"  {kind} {name} = {tag};\n" for tag, (kind, name) in enumerate(zip(kinds, names, strict=True), 1))
    return f'syntax = "proto3";\n\nmessage {name} {{\n{lines}}}\n'


def epochs(client: SimClient) -> list[int]:
    """The leader epochs of the registry's log that nodes know of."""
    return list(client.cluster.leader_epochs(SCHEMAS, 0).values())


def moment(client: SimClient) -> Moment:
    """Now, as something is acknowledged."""
    return Moment(client.now, max(epochs(client), default=-1))


def before(done: Moment, began: Moment) -> bool:
    """Whether who began to look must see what was done."""
    return done.ended < began.ended and done.epoch <= began.epoch

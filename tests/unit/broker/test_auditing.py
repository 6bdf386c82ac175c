"""The audit log of a node: what is written, when, and what happens when it cannot be."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.auditing import Audit, WatchedGuard, selection_of
from kavka.broker.context import Context
from kavka.model.clock import ManualClock
from kavka.model.errors import (
    ClusterAuthorizationFailed,
    KafkaStorageError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailed,
)
from kavka.model.settings import SettingError, broker_values
from kavka.net.session import Session
from kavka.protocol.registry import ApiKey
from kavka.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kavka.protocol.schemas.describe_quorum import DescribeQuorumResponse
from kavka.security.acl import Operation, ResourceType
from kavka.storage.disk import RealDisk, RealFile

ALICE = Session(7, listener="CLIENT", client_host="10.0.0.1", client_port=5, principal="User:alice")
ASKED = Context(ApiKey.CREATE_TOPICS, 7, "shop", ALICE, 0, correlation_id=42)
CLOCK = ManualClock()
TOPIC, READ = int(ResourceType.TOPIC), int(Operation.READ)


class FullFile(RealFile):
    """A file on a disk that is full, while it is."""

    full = False

    def write_at(self, position: int, buffers: Any, length: int) -> None:
        if FullFile.full:
            raise OSError(28, "No space left on device")
        super().write_at(position, buffers, length)


class FullDisk(RealDisk):
    """Has such files."""

    def create(self, path: str) -> RealFile:
        super().create(path).close()
        return FullFile(self, path)


def audit_in(folder: Path, disk: RealDisk | None = None, **settings: str) -> Audit:
    values = broker_values({f"kavka.audit.{name}": text for name, text in settings.items()})
    return Audit(values, disk or RealDisk(), str(folder), CLOCK, lambda: "id", 3, forwards=False)


def written(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_bytes().splitlines()]


def create(*names: str) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in names
    ]
    return CreateTopicsRequest(topics=topics)


def call(audit: Audit, request: Any, ctx: Context, error: BaseException | None = None) -> Any:
    async def handler(request: Any, ctx: Context) -> Any:
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return CreateTopicsResponse(topics=[])

    return asyncio.run(audit.wrap(ctx.api_key, handler)(request, ctx))


def test_an_entry_says_who_did_what_and_is_there_before_the_answer(tmp_path: Path) -> None:
    assert call(audit_in(tmp_path), create("orders"), ASKED) is not None
    (entry,) = written(tmp_path)
    assert entry == {
        "seq": 1,
        "time": entry["time"],
        "node": 3,
        "spool": "id",
        "principal": "User:alice",
        "host": "10.0.0.1",
        "listener": "CLIENT",
        "client_id": "shop",
        "api": "CreateTopics",
        "operation": "CREATE",
        "resource_type": "TOPIC",
        "resource": "orders",
        "allowed": True,
        "detail": "num_partitions 1",
        "version": 7,
        "correlation_id": 42,
        "error_code": 0,
        "outcome": "NONE",
    }


def test_an_error_is_written_and_still_raised(tmp_path: Path) -> None:
    audit = audit_in(tmp_path)
    with pytest.raises(ClusterAuthorizationFailed):
        call(audit, create("orders"), ASKED, ClusterAuthorizationFailed())
    with pytest.raises(ZeroDivisionError):
        call(audit, create("orders"), ASKED, ZeroDivisionError())
    with pytest.raises(asyncio.CancelledError):
        call(audit, create("orders"), ASKED, asyncio.CancelledError())
    denied, failed, gone = written(tmp_path)
    assert (denied["allowed"], denied["outcome"]) == (False, "CLUSTER_AUTHORIZATION_FAILED")
    assert (failed["allowed"], failed["outcome"]) == (True, "UNKNOWN_SERVER_ERROR")
    assert gone["outcome"] == "NOT_ANSWERED"


def test_what_another_node_writes_and_what_the_node_asks_itself_is_not_written(tmp_path: Path) -> None:
    audit = audit_in(tmp_path)
    call(audit, create("orders"), replace(ASKED, forwarded=True))
    call(audit, create("orders"), replace(ASKED, session=replace(ALICE, id=-1)))
    assert written(tmp_path) == []


def test_a_large_request_is_written_in_slices_and_texts_are_cut(tmp_path: Path) -> None:
    call(audit_in(tmp_path), create("x" * 5000, *(f"t{number}" for number in range(450))), ASKED)
    found = written(tmp_path)
    assert [entry["seq"] for entry in found] == list(range(1, 452))
    assert len(found[0]["resource"]) == 512


def test_only_what_is_chosen_is_written(tmp_path: Path) -> None:
    audit = audit_in(tmp_path, allowed="DeleteTopics")
    call(audit, create("orders"), ASKED)
    assert written(tmp_path) == []
    with pytest.raises(TopicAuthorizationFailed):
        call(audit, create("orders"), ASKED, TopicAuthorizationFailed())
    assert len(written(tmp_path)) == 1
    groups = audit_in(tmp_path / "groups", allowed="all", resources="group,cluster")
    call(groups, create("orders"), ASKED)
    assert written(tmp_path / "groups") == []


def test_an_api_that_there_is_not_is_refused() -> None:
    with pytest.raises(SettingError, match=r"kavka\.audit\.denied: 'CreateTopic' is neither admin"):
        selection_of(broker_values({"kavka.audit.denied": "CreateTopic"}))


def test_without_a_log_nothing_is_changed_and_what_was_is_written_later(tmp_path: Path) -> None:
    audit = audit_in(tmp_path, FullDisk())
    FullFile.full = True
    try:
        with pytest.raises(KafkaStorageError, match="the audit log cannot be written: No space left"):
            call(audit, create("done"), ASKED)
        with pytest.raises(KafkaStorageError):
            call(audit, create("refused"), ASKED, AssertionError("it must not be asked"))
    finally:
        FullFile.full = False
    CLOCK.advance(1000)
    call(audit, create("next"), ASKED)
    assert [entry["resource"] for entry in written(tmp_path)] == ["done", "next"]
    assert audit.failures == 1


def test_while_the_disk_is_full_it_is_tried_once_a_second_and_told_once_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    audit = audit_in(tmp_path, FullDisk(), allowed="all")
    guard = WatchedGuard(audit, ALICE, None)
    FullFile.full = True
    try:
        for number in range(300):
            guard.allows(READ, TOPIC, f"t{number}", ApiKey.FETCH)
            CLOCK.advance(100)
    finally:
        FullFile.full = False
    assert audit.failures == 30
    assert len(caplog.records) == 1
    CLOCK.advance(1000)
    audit.tell_counts()  # though nothing was repeated
    assert [entry["resource"] for entry in written(tmp_path)] == [f"t{number}" for number in range(300)]


def test_a_client_that_hangs_up_while_much_is_written_loses_nothing_of_it(tmp_path: Path) -> None:
    audit = audit_in(tmp_path)

    async def handler(request: Any, ctx: Context) -> Any:
        return CreateTopicsResponse(topics=[])

    async def hang_up() -> None:
        asked = audit.wrap(ASKED.api_key, handler)(create(*(f"t{number}" for number in range(450))), ASKED)
        task = asyncio.create_task(asked)
        while not audit.entries:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(hang_up())
    assert [entry["resource"] for entry in written(tmp_path)] == [f"t{number}" for number in range(450)]


def test_what_is_not_chosen_is_not_written_of_those_who_hang_up_either(tmp_path: Path) -> None:
    with pytest.raises(asyncio.CancelledError):
        call(audit_in(tmp_path, allowed="DeleteTopics"), create("orders"), ASKED, asyncio.CancelledError())
    assert written(tmp_path) == []


def test_what_was_only_asked_says_so(tmp_path: Path) -> None:
    request = CreateTopicsRequest(topics=create("orders").topics, validate_only=True)
    call(audit_in(tmp_path), request, ASKED)
    assert [entry["detail"] for entry in written(tmp_path)] == ["validateOnly num_partitions 1"]


def test_decisions_that_are_repeated_are_counted(tmp_path: Path) -> None:
    audit = audit_in(tmp_path, allowed="all")
    guard = WatchedGuard(audit, ALICE, None)
    for _ in range(1000):
        assert guard.allows(READ, TOPIC, "orders", ApiKey.FETCH)
        assert guard.allows(READ, TOPIC, "orders", ApiKey.FETCH, False)  # only looked up
    assert [entry["count"] for entry in written(tmp_path)] == [1]
    audit.tell_counts()
    audit.tell_counts()
    assert [(entry["api"], entry["count"]) for entry in written(tmp_path)] == [("Fetch", 1), ("Fetch", 999)]


def test_by_default_only_denials_of_what_is_not_administrative_are_written(tmp_path: Path) -> None:
    class Closed:
        def allows(self, *_: object) -> bool:
            return False

        def allows_any(self, *_: object) -> bool:
            return False

    audit = audit_in(tmp_path)
    assert WatchedGuard(audit, ALICE, None).allows(READ, TOPIC, "orders", ApiKey.FETCH)
    closed = WatchedGuard(audit, ALICE, Closed())
    assert not closed.allows(READ, TOPIC, "orders", ApiKey.FETCH)
    assert not closed.allows(READ, TOPIC, "orders", ApiKey.CREATE_TOPICS)  # with its answer, by `wrap`
    assert not closed.allows_any(READ, TOPIC)
    assert [(entry["api"], entry["allowed"]) for entry in written(tmp_path)] == [("Fetch", False)]


def test_what_the_controller_denies_somebody_is_written_where_it_was_asked(tmp_path: Path) -> None:
    audit = audit_in(tmp_path)
    ctx = replace(ASKED, api_key=ApiKey.DESCRIBE_QUORUM, api_version=2)
    denied = DescribeQuorumResponse(error_code=ClusterAuthorizationFailed.code, error_message="", topics=[])
    audit.decided_by_controller(DescribeQuorumResponse(error_code=0, error_message="", topics=[]), ctx)
    audit.decided_by_controller(
        CreateTopicsResponse(throttle_time_ms=0, topics=[]), ASKED
    )  # administrative: it has an entry of its own
    assert written(tmp_path) == []
    for _ in range(3):
        audit.decided_by_controller(denied, ctx)
    audit.tell_counts()
    fields = ("principal", "api", "operation", "resource", "allowed", "count")
    assert [tuple(row.get(field, 1) for field in fields) for row in written(tmp_path)] == [
        ("User:alice", "DescribeQuorum", "DESCRIBE", "kafka-cluster", False, 1),
        ("User:alice", "DescribeQuorum", "DESCRIBE", "kafka-cluster", False, 2),
    ]


def test_log_ins_are_written_as_chosen_and_counted(tmp_path: Path) -> None:
    audit = audit_in(tmp_path / "failed")
    refused = SaslAuthenticationFailed("no")
    audit.logged_in(ALICE, "PLAIN", None, "")
    for _ in range(3):
        audit.logged_in(ALICE, "PLAIN", refused, "it is another password")
    audit.tell_counts()
    found = written(tmp_path / "failed")
    assert [(entry["operation"], entry["allowed"], entry["count"]) for entry in found] == [
        ("LOGIN", False, 1),
        ("LOGIN", False, 2),
    ]
    assert (found[0]["outcome"], found[0]["detail"]) == ("SASL_AUTHENTICATION_FAILED", "PLAIN it is another password")
    both = audit_in(tmp_path / "both", logins="succeeded,failed")
    both.logged_in(ALICE, "PLAIN", None, "")
    (entry,) = written(tmp_path / "both")
    assert (entry["resource_type"], entry["resource"], entry["outcome"]) == ("USER", "alice", "NONE")
    for name, text in (("logins", ""), ("resources", "topic")):
        none = audit_in(tmp_path / "none", None, **{name: text})
        none.logged_in(ALICE, "PLAIN", refused, "")
        assert written(tmp_path / "none") == []


def test_many_different_decisions_do_not_grow_the_memory(tmp_path: Path) -> None:
    audit = audit_in(tmp_path, allowed="all")
    guard = WatchedGuard(audit, ALICE, None)
    for number in range(5000):
        guard.allows(READ, TOPIC, f"t{number}", ApiKey.FETCH)
    assert len(audit._counted) == 1001
    assert audit.entries == 1000
    audit.tell_counts()
    last = written(tmp_path)[-1]
    assert (last["principal"], last["client_id"], last["resource"], last["count"]) == ("User:alice", "*", "*", 4000)


def test_strangers_who_fail_in_many_ways_leave_room_for_what_clients_are_denied(tmp_path: Path) -> None:
    audit = audit_in(tmp_path)
    for number in range(5000):
        stranger = replace(ALICE, principal="User:ANONYMOUS", client_id=f"c{number}")
        audit.logged_in(stranger, "PLAIN", SaslAuthenticationFailed("no"), f"way {number}")
    told = audit.entries
    assert told == 300
    audit.decided(ALICE, ApiKey.FETCH, READ, TOPIC, "orders", False)
    assert (audit.entries, written(tmp_path)[-1]["resource"]) == (told + 1, "orders")
    audit.tell_counts()
    assert written(tmp_path)[-1]["count"] == 4700


def test_others_have_their_turn_while_counts_are_written(tmp_path: Path) -> None:
    audit = audit_in(tmp_path, allowed="all")
    audit._interval_s = 0
    guard = WatchedGuard(audit, ALICE, None)
    for number in range(1000):
        guard.allows(READ, TOPIC, f"t{number}", ApiKey.FETCH)
        guard.allows(READ, TOPIC, f"t{number}", ApiKey.FETCH)

    async def watched() -> list[int]:
        task, steps = asyncio.create_task(audit.run()), [audit.entries]
        while steps[-1] < 2000:
            await asyncio.sleep(0)
            steps.append(audit.entries)
        task.cancel()
        await asyncio.wait([task])
        return steps

    steps = asyncio.run(watched())
    assert max(after - before for before, after in pairwise(steps)) == 100


def test_with_fsync_the_answer_waits_for_the_disk(tmp_path: Path) -> None:
    synced: list[int] = []

    class SyncedFile(RealFile):
        def sync(self) -> None:
            super().sync()
            synced.append(self.size())

    class SyncedDisk(RealDisk):
        def create(self, path: str) -> RealFile:
            super().create(path).close()
            return SyncedFile(self, path)

    audit = audit_in(tmp_path, SyncedDisk(), fsync="true")
    call(audit, create("orders"), ASKED)
    assert synced == [(tmp_path / "00000000000000000001.jsonl").stat().st_size]
    audit.close()


def test_what_could_not_be_forced_to_disk_is_written_again_before_it_counts(tmp_path: Path) -> None:
    """As Linux does it: after a failure the pages are taken for written, and the next time all is well."""
    done: list[str] = []

    class BadFile(RealFile):
        def write_at(self, position: int, buffers: Any, length: int) -> None:
            super().write_at(position, buffers, length)
            done.append(f"write {Path(self.path).stem[-1]}")

        def sync(self) -> None:
            done.append(f"sync {Path(self.path).stem[-1]}")
            if len(done) == 2:
                raise OSError(5, "Input/output error")

    class BadDisk(RealDisk):
        def create(self, path: str) -> RealFile:
            super().create(path).close()
            return BadFile(self, path)

    audit = audit_in(tmp_path, BadDisk(), fsync="true")
    with pytest.raises(KafkaStorageError, match="cannot be forced to disk"):
        call(audit, create("first"), ASKED)
    call(audit, create("second"), ASKED)
    assert done == ["write 1", "sync 1", "write 2", "write 1", "sync 1", "sync 2"]
    call(audit, create("third"), ASKED)
    assert done[6:] == ["write 2", "sync 2"]
    assert [entry["resource"] for entry in written(tmp_path)] == ["first", "second", "third"]
    audit.close()

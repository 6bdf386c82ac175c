"""A broker's life as the controller sees it: registering, heartbeats, coming into service, leaving."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from kavka.metadata.image import EMPTY
from kavka.model.errors import (
    DuplicateBrokerRegistration,
    KafkaStorageError,
    RequestTimedOut,
    SaslAuthenticationFailed,
    StaleBrokerEpoch,
)
from kavka.model.types import Endpoint, Uuid
from kavka.protocol.schemas.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kavka.protocol.schemas.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kavka.protocol.schemas.controller_registration import ControllerRegistrationResponse
from kavka.quorum.lifecycle import BrokerLifecycle
from kavka.quorum.membership import ControllerMembership
from kavka.quorum.registration import Registration

LIFE = Uuid(b"l" * 16)
LOST = Uuid(b"x" * 16)


def registration():
    endpoint = Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT")
    controllers = (endpoint._replace(listener="CONTROLLER", port=9093),)
    return Registration(LIFE, (endpoint,), controllers, (Uuid(b"d" * 16), Uuid(b"e" * 16)))


class InService:
    """A cluster in which every broker is in service."""

    def is_active(self, broker_id):
        return True


@dataclass
class Metadata:
    """What the node knows; a test moves it on."""

    node_id = 3
    cluster_id = "XtzFyRoARCCFvqzNMVkX_Q"
    image = EMPTY
    subscribers: list = field(default_factory=list)
    leader_changes: list = field(default_factory=list)

    def subscribe(self, subscriber):
        self.subscribers.append(subscriber)

    def on_leader_change(self, callback):
        self.leader_changes.append(callback)

    def unfence(self):
        self.image = replace(EMPTY, cluster=InService())
        for subscriber in self.subscribers:
            subscriber(self.image, None)

    def reach(self, offset):
        self.image = image = replace(EMPTY, offset=offset)
        for subscriber in self.subscribers:
            subscriber(image, None)


class Controller:
    """Answers as the test says; stands where a ControllerChannel would."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.beat = asyncio.Event()

    async def call(self, request, *, timeout_ms=0):
        await asyncio.sleep(0)
        self.asked.append(request)
        self.beat.set()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def registered(epoch=7, code=0):
    return BrokerRegistrationResponse(error_code=code, broker_epoch=epoch)


def beat(*, code=0, fenced=False, leave=False):
    return BrokerHeartbeatResponse(error_code=code, is_caught_up=True, is_fenced=fenced, should_shut_down=leave)


def lifecycle(controller, metadata, **options):
    times = {"heartbeat_ms": 5, "session_ms": 50, "registration_timeout_ms": 5000, **options}
    return BrokerLifecycle(metadata, controller, registration(), **times)


def go(work):
    return asyncio.run(asyncio.wait_for(work, 30))


def test_a_broker_registers_again_until_the_session_of_its_last_life_is_over(caplog):
    async def work():
        controller = Controller(registered(code=DuplicateBrokerRegistration.code), RequestTimedOut(), registered())
        life = lifecycle(controller, Metadata())
        assert life.epoch == -1
        assert await life.register() == life.epoch == 7
        request = controller.asked[0]
        assert isinstance(request, BrokerRegistrationRequest)
        assert (request.broker_id, request.incarnation_id, request.previous_broker_epoch) == (3, LIFE, -1)
        assert [
            (listener.name, listener.host, listener.port, listener.security_protocol) for listener in request.listeners
        ] == [("PLAINTEXT", "h", 9092, 0)]

    go(work())
    assert "until its session ends" in caplog.text


def test_a_broker_that_cannot_register_in_time_says_why():
    async def work():
        controller = Controller(registered(code=DuplicateBrokerRegistration.code))
        with pytest.raises(RequestTimedOut, match="could not be registered"):
            await lifecycle(controller, Metadata(), registration_timeout_ms=100).register()

    go(work())


def test_a_broker_is_caught_up_when_it_has_read_its_own_registration():
    async def work():
        metadata = Metadata()
        life = lifecycle(Controller(registered(7)), metadata)
        await life.register()
        waiting = asyncio.create_task(life.caught_up())
        for offset in (3, 6):
            metadata.reach(offset)
            await asyncio.sleep(0)
            assert not waiting.done()
        metadata.reach(7)
        assert (await waiting).offset == 7

    go(work())


def test_a_broker_asks_for_service_when_it_is_ready_and_is_heard_at_once_by_a_new_controller():
    async def work():
        metadata = Metadata()
        controller = Controller(beat(fenced=True), beat(fenced=True), beat(code=StaleBrokerEpoch.code), beat())
        life = lifecycle(controller, metadata, heartbeat_ms=60_000, offline=lambda: [LOST])
        life._heartbeat_seconds = 0.01
        running = asyncio.create_task(life.run())
        await controller.beat.wait()
        assert controller.asked[0].want_fence
        assert controller.asked[0].offline_log_dirs == [LOST]
        asking = asyncio.create_task(life.come_into_service())
        await life._in_service.wait()
        await asyncio.sleep(0)
        assert not asking.done()
        metadata.unfence()
        assert await asking
        assert isinstance(controller.asked[-1], BrokerHeartbeatRequest)
        assert not controller.asked[-1].want_fence
        life._heartbeat_seconds = 60
        before = len(controller.asked)
        while len(controller.asked) == before:
            metadata.leader_changes[0]()
            await asyncio.sleep(0.001)
        running.cancel()

    go(work())


def test_what_keeps_a_broker_from_being_heard_is_told_once(caplog):
    async def work():
        refused = SaslAuthenticationFailed("who is this?")
        controller = Controller(*[refused] * 3, *[RequestTimedOut("nobody")] * 2, beat(), refused, beat())
        running = asyncio.create_task(lifecycle(controller, Metadata()).run())
        while len(controller.asked) < 8:
            await asyncio.sleep(0.001)
        running.cancel()

    go(work())
    assert [line.getMessage() for line in caplog.records if line.levelname == "WARNING"] == [
        "broker 3: heartbeat failed: who is this?",
        "broker 3: heartbeat failed: nobody",
        "broker 3: heartbeat failed: who is this?",
    ]


def test_a_controller_that_is_not_let_in_says_so_once(caplog, monkeypatch):
    monkeypatch.setattr("kavka.quorum.membership.REGISTER_AGAIN_SECONDS", 0.001)

    async def work():
        controller = Controller(SaslAuthenticationFailed("who is this?"))
        running = asyncio.create_task(ControllerMembership(Metadata(), controller, registration()).run())
        while len(controller.asked) < 3:
            await asyncio.sleep(0.001)
        running.cancel()

    go(work())
    assert caplog.text.count("who is this?") == 1


def test_a_broker_does_not_outlive_its_last_directory():
    async def work():
        controller = Controller(beat(fenced=True))
        lost: list[Any] = []
        running = asyncio.create_task(lifecycle(controller, Metadata(), offline=lambda: lost).run())
        await controller.beat.wait()
        lost += [Uuid(b"d" * 16), Uuid(b"e" * 16)]
        with pytest.raises(KafkaStorageError, match="all log directories are offline"):
            await running

    go(work())


def test_a_lost_directory_is_told_at_once_and_a_broker_that_cannot_tell_of_it_ends():
    async def work():
        controller = Controller(beat())
        lost: list[Any] = []
        options = {"heartbeat_ms": 60_000, "failure_timeout_ms": 30, "offline": lambda: lost}
        life = lifecycle(controller, Metadata(), **options, cordoned=lambda: [LIFE])
        life.take_over(7)
        running = asyncio.create_task(life.run())
        await asyncio.sleep(0)
        lost.append(LOST)
        life.wake()
        await controller.beat.wait()
        assert (controller.asked[0].offline_log_dirs, controller.asked[0].cordoned_log_dirs) == ([LOST], [LIFE])
        life._heartbeat_seconds = 0.005
        lost.append(Uuid(b"y" * 16))
        lost.append(Uuid(b"z" * 16))
        controller.answers = [RequestTimedOut()]
        life.wake()
        with pytest.raises(KafkaStorageError, match="no controller heard"):
            await running

    go(work())


def test_a_broker_leaves_when_the_controller_lets_it_go():
    async def work():
        controller = Controller(beat(), beat(), beat(), beat(leave=True))
        life = lifecycle(controller, metadata := Metadata())
        running = asyncio.create_task(life.run())
        metadata.unfence()
        await life.come_into_service()
        assert await life.leave(20)
        await running
        assert controller.asked[-1].want_shut_down

    go(work())


def test_a_broker_that_is_not_let_go_leaves_all_the_same():
    async def work():
        life = lifecycle(Controller(beat()), Metadata())
        running = asyncio.create_task(life.run())
        assert not await life.leave(0.1)
        running.cancel()

    go(work())


def test_a_broker_does_not_wait_for_controllers_that_are_gone(monkeypatch):
    monkeypatch.setattr("kavka.quorum.lifecycle.UNHEARD_SECONDS", 0.1)

    async def work():
        life = lifecycle(Controller(RequestTimedOut("nobody")), Metadata())
        running = asyncio.create_task(life.run())
        assert not await life.leave(20)
        running.cancel()

    go(work())


def test_a_controller_registers_until_the_cluster_knows_it():
    async def work():
        metadata = Metadata()
        done = ControllerRegistrationResponse(error_code=0, error_message=None)
        controller = Controller(RequestTimedOut("later"), done)
        running = asyncio.create_task(ControllerMembership(metadata, controller, registration()).run())
        while len(controller.asked) < 2:
            await asyncio.sleep(0.01)
        assert controller.asked[1].controller_id == 3
        assert [listener.port for listener in controller.asked[1].listeners] == [9093]
        metadata.reach(3)  # somebody else's registration, or none
        while len(controller.asked) < 3:
            await asyncio.sleep(0.01)
        running.cancel()

    go(work())


def test_a_broker_that_is_in_service_already_rests_before_it_is_heard():
    async def work():
        controller = Controller(beat())
        life = lifecycle(controller, Metadata(), heartbeat_ms=50)
        life.take_over(7)
        running = asyncio.create_task(life.run())
        await asyncio.sleep(0)
        assert not controller.asked
        await controller.beat.wait()
        assert (controller.asked[0].broker_epoch, controller.asked[0].want_fence) == (7, False)
        running.cancel()

    go(work())

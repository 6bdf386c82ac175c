"""The life of a broker in a cluster: it registers, sends heartbeats, comes into service, and asks before it leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from kavka.client.deadline import within
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.features import SUPPORTED
from kavka.metadata.image import MetadataImage
from kavka.model.errors import DuplicateBrokerRegistration, KafkaError, KafkaStorageError, RequestTimedOut, raise_for
from kavka.model.types import Uuid
from kavka.quorum.channel import ControllerChannel
from kavka.quorum.membership import REGISTER_AGAIN_SECONDS, Metadata, listener
from kavka.quorum.registration import Registration

if TYPE_CHECKING:  # schemas are imported when they are used: no request is sent before a node that is alone serves
    from kavka.protocol.schemas.broker_heartbeat import BrokerHeartbeatResponse
    from kavka.protocol.schemas.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

log = logging.getLogger(__name__)

REGISTER_SELDOM_SECONDS: Final = 5.0
"""What the time between two tries to register grows to where something is wrong that does not mend itself."""
CATCHING_UP_SECONDS: Final = 0.01
"""Between two heartbeats of a broker that comes into service or leaves it."""
LEAVING_SECONDS: Final = 0.05
UNHEARD_SECONDS: Final = 3.0
"""How long a broker that wants to leave waits for a controller: when a whole cluster stops, none is left to ask."""


class BrokerLifecycle:
    """Keeps one broker registered, and in service while it wants to be."""

    def __init__(
        self,
        metadata: Metadata,
        channel: ControllerChannel,
        registration: Registration,
        *,
        heartbeat_ms: int,
        session_ms: int,
        registration_timeout_ms: int,
        offline: Callable[[], Sequence[Uuid]] = tuple,
    ) -> None:
        """`offline` says which directories are lost; they are told with each heartbeat, and no broker outlives all."""
        self.epoch = -1
        """The broker epoch of this life; -1 before it is registered."""
        self._metadata = metadata
        self._channel = channel
        self._registration = registration
        self._heartbeat_seconds = heartbeat_ms / 1000
        self._answer_ms = max(1, session_ms // 2)
        self._registration_timeout_ms = registration_timeout_ms
        self._offline = offline
        self._fresh = True  # whether it is not in service yet
        self._want_fence = True
        self._want_shut_down = False
        self._wake = asyncio.Event()
        self._in_service = asyncio.Event()
        self._may_leave = asyncio.Event()
        self._heard_at = 0.0

    async def run(self) -> None:
        """Send heartbeats until cancelled, or until the controller lets this broker go; `register` comes first."""
        self._metadata.on_leader_change(self._wake.set)  # a new controller wants to hear from everybody
        self._channel.on_lost = self._wake.set  # the controller takes a closed connection for the end of the process
        if not self._fresh:
            await self._rest(self._heartbeat_seconds)
        said: type[KafkaError] | None = None
        while not self._may_leave.is_set():
            self._wake.clear()
            if len(lost := self._offline()) == len(self._registration.directories):
                raise KafkaStorageError("all log directories are offline: others can do more than this broker")
            try:
                pause, said = self._heard(await self._beat(lost)), None
            except KafkaError as error:
                if said is not type(error):  # once, however long it lasts
                    said = type(error)
                    log.warning("heartbeats of broker %d fail: %s", self._metadata.node_id, error)
                pause = LEAVING_SECONDS if self._want_shut_down else self._heartbeat_seconds
            await self._rest(pause)

    def take_over(self, epoch: int) -> None:
        """Go on with a broker that was registered and put in service already."""
        self.epoch, self._want_fence, self._fresh = epoch, False, False
        self._in_service.set()

    async def register(self) -> int:
        """Register this life, and try again until that succeeds; the broker epoch. Raises RequestTimedOut."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._registration_timeout_ms / 1000
        said: KafkaError | None = None
        pause = REGISTER_AGAIN_SECONDS
        while True:
            try:
                left = max(1, int((deadline - loop.time()) * 1000))
                answer: BrokerRegistrationResponse = await self._channel.call(self._request(), timeout_ms=left)
                raise_for(answer.error_code)
            except KafkaError as error:
                if loop.time() + REGISTER_AGAIN_SECONDS >= deadline:
                    raise RequestTimedOut(f"this broker could not be registered: {error}") from error
                if said is None or said.code != error.code:
                    said = error
                    patience = " until its session ends" if isinstance(error, DuplicateBrokerRegistration) else ""
                    log.warning("this broker is not registered, trying again%s: %s", patience, error)
                await asyncio.sleep(min(pause, deadline - REGISTER_AGAIN_SECONDS - loop.time()))
                if not isinstance(error, DuplicateBrokerRegistration):
                    pause = min(2 * pause, REGISTER_SELDOM_SECONDS)
                continue
            self.epoch = answer.broker_epoch
            log.info("broker %d is registered with epoch %d", self._metadata.node_id, self.epoch)
            return self.epoch

    async def caught_up(self) -> MetadataImage:
        """The image, once it has this life in it and so all that came before."""
        return await self._until(lambda image: image.offset >= self.epoch)

    async def come_into_service(self) -> bool:
        """Ask for clients, and return when the controller sends some and this node knows it too."""
        self._want_fence = False
        self._wake.set()
        await self._in_service.wait()
        await self._until(lambda image: image.cluster.is_active(self._metadata.node_id))
        return True

    @property
    def leaving(self) -> bool:
        """Whether this broker is on its way out."""
        return self._want_shut_down

    async def _until(self, holds: Callable[[MetadataImage], bool]) -> MetadataImage:
        """The first image of which something holds."""
        reached = asyncio.Event()

        def look(image: MetadataImage, _: MetadataDelta | None = None) -> None:
            if holds(image):
                reached.set()

        self._metadata.subscribe(look)
        look(self._metadata.image)
        await reached.wait()
        return self._metadata.image

    async def leave(self, seconds: float) -> bool:
        """Hand over what this broker leads; False if the time was up first, or nobody was there to ask."""
        loop = asyncio.get_running_loop()
        began = self._heard_at = loop.time()
        self._want_shut_down = True
        self._wake.set()
        while not self._may_leave.is_set():
            now = loop.time()
            if now - began >= seconds or now - self._heard_at >= UNHEARD_SECONDS:
                log.warning("this broker leaves without having handed over what it leads")
                return False
            try:
                async with within(LEAVING_SECONDS):
                    await self._may_leave.wait()
            except TimeoutError:
                pass
        return True

    async def _beat(self, lost: Sequence[Uuid]) -> BrokerHeartbeatResponse:
        from kavka.protocol.schemas.broker_heartbeat import BrokerHeartbeatRequest

        request = BrokerHeartbeatRequest(
            broker_id=self._metadata.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._metadata.image.offset,
            want_fence=self._want_fence,
            want_shut_down=self._want_shut_down,
            offline_log_dirs=list(lost),
            cordoned_log_dirs=list(self._registration.cordoned),
        )
        answer: BrokerHeartbeatResponse = await self._channel.call(request, timeout_ms=self._answer_ms)
        raise_for(answer.error_code)
        return answer

    def _heard(self, answer: BrokerHeartbeatResponse) -> float:
        """Take in the controller's answer; how long to rest."""
        self._heard_at = asyncio.get_running_loop().time()
        if self._want_shut_down:
            if answer.should_shut_down:
                log.info("the controller lets this broker go")
                self._may_leave.set()
            return LEAVING_SECONDS
        if not self._want_fence and not answer.is_fenced and not self._in_service.is_set():
            log.info("broker %d is in service", self._metadata.node_id)
            self._in_service.set()
        return self._heartbeat_seconds if self._in_service.is_set() else CATCHING_UP_SECONDS

    async def _rest(self, seconds: float) -> None:
        try:
            async with within(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _request(self) -> BrokerRegistrationRequest:
        from kavka.protocol.schemas.broker_registration import BrokerRegistrationRequest, Feature, Listener

        node = self._registration
        return BrokerRegistrationRequest(
            broker_id=self._metadata.node_id,
            cluster_id=self._metadata.cluster_id,
            incarnation_id=node.incarnation_id,
            listeners=[Listener(**listener(one)) for one in node.endpoints],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED.items()
            ],
            rack=node.rack,
            log_dirs=sorted(node.directories),
            previous_broker_epoch=node.previous_epoch,
        )

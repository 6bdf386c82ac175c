"""The life of a broker in a cluster: registration, heartbeats, unfencing, controlled shutdown."""

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

logger = logging.getLogger(__name__)

REGISTER_SELDOM_SECONDS: Final = 5.0
"""The longest time between two tries to register."""
CATCHING_UP_SECONDS: Final = 0.01
"""Between two heartbeats of a broker that wants to be unfenced or to shut down."""
LEAVING_SECONDS: Final = 0.05
UNHEARD_SECONDS: Final = 3.0
"""How long a broker in controlled shutdown waits for a controller: when a whole cluster stops, none is left to ask."""


class BrokerLifecycle:
    """Keeps one broker registered, and unfenced while it wants to be."""

    def __init__(
        self,
        metadata: Metadata,
        channel: ControllerChannel,
        registration: Registration,
        *,
        heartbeat_ms: int,
        session_ms: int,
        registration_timeout_ms: int,
        failure_timeout_ms: int = 30_000,
        offline: Callable[[], Sequence[Uuid]] = tuple,
        cordoned: Callable[[], Sequence[Uuid]] = tuple,
    ) -> None:
        """`offline` and `cordoned` tell the log directories that heartbeats say are.

        A broker without any other than offline ones stops, and one that cannot tell of them in `failure_timeout_ms`.
        """
        self.epoch = -1
        """The broker epoch; -1 before it is registered."""
        self._metadata = metadata
        self._channel = channel
        self._registration = registration
        self._heartbeat_seconds = heartbeat_ms / 1000
        self._session_seconds = session_ms / 1000
        self._answer_ms = max(1, session_ms // 2)
        self._registration_timeout_ms = registration_timeout_ms
        self._failure_seconds = failure_timeout_ms / 1000
        self._offline = offline
        self._cordoned = cordoned
        self._untold_since: float | None = None
        self._told: Sequence[Uuid] = ()
        self._fresh = True  # whether it is not in service yet
        self._want_fence = True
        self._want_shut_down = False
        self._wake = asyncio.Event()
        self._in_service = asyncio.Event()
        self._may_leave = asyncio.Event()
        self._heard_at = 0.0

    async def run(self) -> None:
        """Send heartbeats until cancelled, or until the controller allows the shutdown; `register` comes first."""
        self._metadata.on_leader_change(self._wake.set)  # a new controller wants to hear from everybody
        self._channel.on_lost = self._wake.set  # the controller takes a closed connection for the end of the process
        if not self._fresh:
            await self._rest(self._heartbeat_seconds)
        said: type[KafkaError] | None = None
        while not self._may_leave.is_set():
            self._wake.clear()
            if len(lost := self._offline()) == len(self._registration.directories):
                raise KafkaStorageError("all log directories are offline: others can do more than this broker")
            self._watch(lost)
            try:
                pause, said = self._heard(await self._beat(lost)), None
                self._told, self._untold_since = tuple(lost), None
            except KafkaError as error:
                if said is not type(error):  # once, however long it lasts
                    said = type(error)
                    logger.warning("broker %d: heartbeat failed: %s", self._metadata.node_id, error)
                pause = LEAVING_SECONDS if self._want_shut_down else self._heartbeat_seconds
            await self._rest(pause)

    def wake(self) -> None:
        """There is something to tell: the next heartbeat is due now."""
        self._wake.set()

    def _watch(self, lost: Sequence[Uuid]) -> None:
        """While the controller does not know that directories are offline, nobody else leads what lies there."""
        now = asyncio.get_running_loop().time()
        if set(lost) <= set(self._told):
            self._untold_since = None
        elif self._untold_since is None:
            self._untold_since = now
        elif now - self._untold_since >= self._failure_seconds:
            raise KafkaStorageError(
                f"no controller heard in {self._failure_seconds:.0f} s that log directories are offline"
            )

    def take_over(self, epoch: int) -> None:
        """Go on with a broker that was registered and unfenced already."""
        self.epoch, self._want_fence, self._fresh = epoch, False, False
        self._heard_at = asyncio.get_running_loop().time()
        self._in_service.set()

    async def register(self) -> int:
        """Register this incarnation, and try again until that succeeds; the broker epoch. Raises RequestTimedOut."""
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
                    logger.warning("broker registration failed, retrying%s: %s", patience, error)
                await asyncio.sleep(min(pause, deadline - REGISTER_AGAIN_SECONDS - loop.time()))
                if not isinstance(error, DuplicateBrokerRegistration):
                    pause = min(2 * pause, REGISTER_SELDOM_SECONDS)
                continue
            self.epoch = answer.broker_epoch
            logger.info("broker %d registered with broker epoch %d", self._metadata.node_id, self.epoch)
            return self.epoch

    async def caught_up(self) -> MetadataImage:
        """The image, once it has this registration and so all that came before."""
        return await self._until(lambda image: image.offset >= self.epoch)

    async def come_into_service(self) -> bool:
        """Ask to be unfenced, and return when the controller has done so and this node's image says it."""
        self._want_fence = False
        self._wake.set()
        await self._in_service.wait()
        await self._until(lambda image: image.cluster.is_active(self._metadata.node_id))
        return True

    @property
    def leaving(self) -> bool:
        """Whether this broker is in controlled shutdown."""
        return self._want_shut_down

    @property
    def unheard(self) -> bool:
        """Whether no controller has answered for so long that the others take this broker for gone."""
        return asyncio.get_running_loop().time() - self._heard_at > self._session_seconds

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
        """Controlled shutdown: move this broker's leaders; False if time was up first, or no controller was there."""
        loop = asyncio.get_running_loop()
        began = self._heard_at = loop.time()
        self._want_shut_down = True
        self._wake.set()
        while not self._may_leave.is_set():
            now = loop.time()
            if now - began >= seconds or now - self._heard_at >= UNHEARD_SECONDS:
                logger.warning("controlled shutdown timed out: this broker still leads partitions")
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
            cordoned_log_dirs=list(self._cordoned()),
        )
        answer: BrokerHeartbeatResponse = await self._channel.call(request, timeout_ms=self._answer_ms)
        raise_for(answer.error_code)
        return answer

    def _heard(self, answer: BrokerHeartbeatResponse) -> float:
        """Take in the controller's answer; how long to rest."""
        self._heard_at = asyncio.get_running_loop().time()
        if self._want_shut_down:
            if answer.should_shut_down:
                logger.info("controlled shutdown complete")
                self._may_leave.set()
            return LEAVING_SECONDS
        if not self._want_fence and not answer.is_fenced and not self._in_service.is_set():
            logger.info("broker %d unfenced", self._metadata.node_id)
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
            listeners=[Listener(**listener(endpoint)) for endpoint in node.endpoints],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED.items()
            ],
            rack=node.rack,
            log_dirs=sorted(node.directories),
            previous_broker_epoch=node.previous_epoch,
        )

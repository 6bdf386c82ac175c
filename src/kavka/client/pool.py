"""Connections to the nodes of a cluster, what is known of its topics, and asking again when that was out of date."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import count
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from kavka.client.connection import Connection
from kavka.client.connector import MAX_FRAME_BYTES, Connector
from kavka.client.dial import Dial, parse_bootstrap
from kavka.client.line import CLIENT, Address, Backoff, Line
from kavka.client.security import SecuredBootstrap, security_of
from kavka.client.view import ClusterView, TopicView, read_metadata
from kavka.model.errors import (
    BrokerNotAvailable,
    KafkaError,
    LeaderNotAvailable,
    NetworkException,
    UnknownTopicOrPartition,
)
from kavka.model.types import TopicPartition
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

T = TypeVar("T")
R = TypeVar("R")

DEFAULT_TIMEOUT_MS: Final = 30_000
UNKNOWN_TOPIC_SECONDS: Final = 0.5
"""How long a topic that a node does not know may be one that it has not heard of yet."""


class Pool:
    """Connections by node, opened when needed; shared by any number of producers, consumers and admins.

    A broker answers the requests of a connection one after the other, so a long poll would hold up all others:
    who polls does it on a `lane`, a connection of its own.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        client_id: str = "kavka",
        dial: Dial | None = None,
        security: Mapping[str, Any] | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        connect_timeout_ms: int = 10_000,
        metadata_max_age_ms: int = 300_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        reconnect_backoff_ms: float = CLIENT.first_ms,
        reconnect_backoff_max_ms: float = CLIENT.longest_ms,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        draw: Callable[[], float] = random.random,
        connector: Connector | None = None,
    ) -> None:
        """`security` has options named as in Kafka's client.properties: security.protocol, ssl.*, sasl.*.

        `connector` is who dials and logs in where that is not decided here: a node's own clients have one.
        """
        if security is None and isinstance(bootstrap, SecuredBootstrap):
            security = bootstrap.security
        self.view = ClusterView()
        self.timeout_ms = timeout_ms
        self._bootstrap = parse_bootstrap(bootstrap)
        self._client_id = client_id
        self._connector = connector if connector is not None else Connector(dial, draw, security_of(security))
        self._connect_timeout_ms = connect_timeout_ms
        self._reconnect = Backoff(reconnect_backoff_ms, reconnect_backoff_max_ms)
        self._max_age = metadata_max_age_ms / 1000
        self._retry = Backoff(retry_backoff_ms, retry_backoff_max_ms)
        self._max_frame_bytes = max_frame_bytes
        self._draw = draw
        self._lines: dict[tuple[Address, object], Line] = {}
        self._refreshing = asyncio.Lock()
        self._refresh_began = -1.0
        self._topics: set[str] = set()
        self._reached = False
        self._closed = False

    async def __aenter__(self) -> Self:
        await self.any()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        for line in self._lines.values():
            line.close()
        self._lines.clear()
        await asyncio.sleep(0)  # the loop closes the sockets in its next turn

    def retry_delay(self, attempt: int) -> float:
        """Seconds to wait after so many failed attempts: doubling, with chance so that clients do not march in step."""
        return self._retry.seconds(attempt - 1, self._draw())

    def hang_up(self, lane: object) -> None:
        """Close the connections of a lane."""
        for key in [key for key in self._lines if key[1] is lane]:
            self._lines.pop(key).close()

    def ready(self, node: int) -> Connection | None:
        """The open connection to a node, if there is one."""
        known = self.view.nodes.get(node)
        line = self._lines.get(((known.host, known.port), None)) if known is not None else None
        return line.connection if line is not None else None

    async def node(self, node: int, lane: object = None) -> Connection:
        """The connection to a node, opened if need be."""
        known = self.view.nodes.get(node)
        if known is None:
            raise BrokerNotAvailable(f"node {node} is not in the cluster")
        return await self._open((known.host, known.port), lane)

    async def any(self, lane: object = None) -> Connection:
        """A connection to some node: an open one if there is one, else the first that can be reached."""
        lines = [line for (_, of), line in self._lines.items() if of == lane]
        idle = [connection for line in lines if (connection := line.connection) is not None]
        if idle:
            return min(idle, key=lambda connection: connection.in_flight)
        addresses = [(node.host, node.port) for node in self.view.nodes.values()]
        addresses.sort(key=lambda address: self._draw())
        addresses += [address for address in self._bootstrap if address not in addresses]
        addresses.sort(key=self._backs_off_until)
        failure: KafkaError | None = None
        for address in addresses:
            try:
                return await self._open(address, lane)
            except KafkaError as error:
                failure = error
        raise failure or NetworkException("no address to connect to")

    async def request(
        self,
        request: Any,
        response: type[R],
        *,
        node: int | None = None,
        timeout_ms: int | None = None,
        lane: object = None,
    ) -> R:
        """Ask a node, or any node, and try again while the network fails, for as long as the timeout allows."""
        loop = asyncio.get_running_loop()
        limit = self.timeout_ms if timeout_ms is None else timeout_ms
        deadline = loop.time() + limit / 1000
        failure = NetworkException(f"no broker was reached within {limit} ms")
        for attempt in count(1):
            try:
                async with asyncio.timeout_at(deadline):  # a broker may be left alone for longer
                    connection = await (self.any(lane) if node is None else self.node(node, lane))
                return await connection.request(request, response, timeout_ms=limit)
            except TimeoutError:
                raise failure from None
            except NetworkException as error:
                failure = error
                wait = self.retry_delay(attempt)
                # A cluster that was never reached is more likely a wrong address than a passing fault.
                if not self._reached or self._closed or loop.time() + wait > deadline:
                    raise
                await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    @property
    def stale(self) -> bool:
        """Whether the metadata has reached its greatest age."""
        return asyncio.get_running_loop().time() - self._refresh_began > self._max_age

    async def refresh(self, topics: Iterable[str] = (), *, create: bool = False) -> ClusterView:
        """Ask for the metadata of these topics and all those asked for before; `create` lets brokers create them."""
        loop = asyncio.get_running_loop()
        topics = set(topics)
        called = loop.time()
        new = not topics <= self._topics
        self._topics |= topics
        async with self._refreshing:
            if self._refresh_began > called and not new and not create:
                return self.view  # somebody else asked after we were called
            began = loop.time()
            asked = sorted(self._topics if not create else topics)
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=name) for name in asked], allow_auto_topic_creation=create
            )
            answer = await self.request(request, MetadataResponse)
            self.view = read_metadata(answer, self.view, asked)
            self._refresh_began = began
        return self.view

    async def refresh_all(self) -> ClusterView:
        """Ask for the metadata of every topic that may be seen, and forget those that are gone."""
        loop = asyncio.get_running_loop()
        async with self._refreshing:
            began = loop.time()
            request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
            self.view = read_metadata(await self.request(request, MetadataResponse), self.view, None)
            self._topics.intersection_update(self.view.topics)
            self._refresh_began = began
        return self.view

    async def topic(self, name: str, *, create: bool = False, wait_ms: int = 0) -> TopicView:
        """A topic that exists; waits for it at most so long, then raises why it is not there."""
        known = self.view.topics.get(name)
        if known is not None and known.error is None:
            return known
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        for attempt in count(1):
            view = (await self.refresh([name], create=create)).topics.get(name)
            if view is not None and view.error is None and view.partitions:
                return view
            error = view.error if view is not None and view.error is not None else UnknownTopicOrPartition
            wait = self.retry_delay(attempt)
            if not error.retriable or loop.time() + wait > deadline:
                self._topics.discard(name)
                if error is UnknownTopicOrPartition:
                    raise error(f"there is no topic {name!r}")
                raise error(f"topic {name!r}: {error()}")
            await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    async def ask_leaders(
        self,
        items: Mapping[TopicPartition, T],
        ask: Callable[[Connection, Mapping[TopicPartition, T]], Awaitable[Mapping[TopicPartition, R | KafkaError]]],
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, R | KafkaError]:
        """Ask each leader, and again where the answer is a passing error; the result or the error of each partition."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        deadline = began + (self.timeout_ms if timeout_ms is None else timeout_ms) / 1000
        results: dict[TopicPartition, R | KafkaError] = {}
        left = dict(items)
        if self.view.missing(left):
            await self.refresh({tp.topic for tp in left})
        for attempt in count(1):
            answers = await self._ask_each_leader(left, ask)
            results.update(answers)
            now = loop.time()
            left = {tp: left[tp] for tp, answer in answers.items() if _passing(answer, now - began)}
            wait = self.retry_delay(attempt)
            if not left or now + wait > deadline:
                break
            await asyncio.sleep(wait)
            await self.refresh({tp.topic for tp in left})
        return {tp: results[tp] for tp in items}

    async def _ask_each_leader(
        self,
        items: Mapping[TopicPartition, T],
        ask: Callable[[Connection, Mapping[TopicPartition, T]], Awaitable[Mapping[TopicPartition, R | KafkaError]]],
    ) -> dict[TopicPartition, R | KafkaError]:
        by_leader: defaultdict[int, dict[TopicPartition, T]] = defaultdict(dict)
        answers: dict[TopicPartition, R | KafkaError] = {}
        for tp, item in items.items():
            leader = self.view.leader(*tp)
            if leader >= 0:
                by_leader[leader][tp] = item
            else:
                answers[tp] = self._leaderless(tp)

        async def ask_one(leader: int, part: Mapping[TopicPartition, T]) -> None:
            try:
                answers.update(await ask(await self.node(leader), part))
            except KafkaError as error:
                answers.update(dict.fromkeys(part, error))

        async with asyncio.TaskGroup() as group:
            for leader, part in by_leader.items():
                group.create_task(ask_one(leader, part))
        return answers

    def _leaderless(self, tp: TopicPartition) -> KafkaError:
        topic = self.view.topics.get(tp.topic)
        if topic is None or topic.error is UnknownTopicOrPartition:
            return UnknownTopicOrPartition(f"there is no topic {tp.topic!r}")
        if topic.error is not None:
            return topic.error(f"topic {tp.topic!r}: {topic.error()}")
        if tp.partition not in topic.partitions:
            return UnknownTopicOrPartition(f"topic {tp.topic!r} has no partition {tp.partition}")
        return LeaderNotAvailable(f"{tp} has no leader at the moment")

    def _backs_off_until(self, address: Address) -> float:
        """Before when an address would not be dialled; those that may be dialled now come first, in their order."""
        line = self._lines.get((address, None))
        until = line.backs_off_until if line is not None else 0.0
        return until if until > asyncio.get_running_loop().time() else 0.0

    async def _open(self, address: Address, lane: object = None) -> Connection:
        if self._closed:
            raise NetworkException("the client is closed")
        line = self._lines.get((address, lane))
        if line is None:
            line = self._lines[address, lane] = Line(
                self._connector,
                lambda: address,
                name="{}:{}".format(*address),
                client_id=self._client_id,
                request_timeout_ms=self.timeout_ms,
                connect_timeout_ms=self._connect_timeout_ms,
                max_frame_bytes=self._max_frame_bytes,
                backoff=self._reconnect,
            )
        connection = await line.connect()
        self._reached = True
        return connection


def _passing(answer: object, seconds: float) -> bool:
    if isinstance(answer, UnknownTopicOrPartition):
        return seconds < UNKNOWN_TOPIC_SECONDS
    return isinstance(answer, KafkaError) and (answer.retriable or isinstance(answer, BrokerNotAvailable))

"""The quotas of this node's clients: follows those of the metadata, and knows what each client has used."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Final

from kavka.broker.context import Context
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage
from kavka.metadata.records.settings import ClientQuotaRecord
from kavka.model.clock import Clock
from kavka.model.errors import ThrottlingQuotaExceeded
from kavka.model.settings import (
    CONTROLLER_QUOTA_WINDOW_NUM,
    CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS,
    QUOTA_WINDOW_NUM,
    QUOTA_WINDOW_SIZE_SECONDS,
    Values,
)
from kavka.net.names import address_of
from kavka.net.session import Session
from kavka.security.quota.clients import Allowance, ClientQuotas
from kavka.security.quota.limits import ALL, Client, QuotaType, plain_address
from kavka.security.quota.rate import TokenBucket, Windows

logger = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 60.0
USER, CLIENT_ID, IP = "user", "client-id", "ip"

IpRates = Mapping[str | None, int]
"""Connections a second, by address; under None those of addresses that have none of their own."""


def client_windows(values: Values) -> Windows:
    """Over how long the rates of clients and connections are measured."""
    return Windows(values[QUOTA_WINDOW_NUM], values[QUOTA_WINDOW_SIZE_SECONDS] * 1000)


class Quotas:
    """What clients may use, as the metadata says, and what they have used of it here."""

    def __init__(self, values: Values, clock: Clock, address_of: Callable[[str], str | None] = address_of) -> None:
        """`address_of` says where a host is, and takes its time."""
        mutations = Windows(values[CONTROLLER_QUOTA_WINDOW_NUM], values[CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS] * 1000)
        self._clients = ClientQuotas(client_windows(values), mutations)
        self.known = self._clients.known
        """What is remembered of clients, by principal and client id: for those who have no time to ask."""
        self._known: Mapping[Hashable, ClientQuotaRecord] = {}
        self._subscribers: list[Callable[[Quotas], None]] = []
        self.now_ms = clock.monotonic_ms
        self.window_ms = self._clients.window_ms
        self.limits_clients = False
        """Whether any client has a quota."""
        self.ip_rates: IpRates = {}
        self._address_of = address_of
        self._of_addresses: IpRates = {}
        self._of_hosts: Mapping[str, int] = {}
        self._addresses: dict[str, str] = {}
        """Where the hosts are that have a quota by their names, as far as somebody knows."""
        self.waits = dict.fromkeys(QuotaType, 0)
        """How often clients had to wait, by the quota that made them."""
        self.waited_ms = dict.fromkeys(QuotaType, 0)
        """For how long they had to."""

    def __len__(self) -> int:
        """How many buckets there are."""
        return len(self._clients)

    def subscribe(self, subscriber: Callable[[Quotas], None]) -> None:
        """Tell now, and after every change of the quotas."""
        self._subscribers.append(subscriber)
        subscriber(self)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take over the quotas of an image."""
        if image.security.quotas is self._known:
            return
        self._known = image.security.quotas
        limits: dict[QuotaType, dict[Client, float]] = {}
        ips: dict[str | None, int] = {}
        hosts: dict[str, int] = {}
        for record in self._known.values():
            entity = {component.entity_type: component.entity_name for component in record.entity}
            if record.key not in _KINDS:
                continue
            kind = QuotaType(record.key)
            if IP in entity:
                name = entity[IP]
                address = None if name is None else plain_address(name)
                if name is not None and address is None:
                    hosts[name] = int(record.value)
                else:
                    ips[address] = int(record.value)
            else:
                limits.setdefault(kind, {})[entity.get(USER, ALL), entity.get(CLIENT_ID, ALL)] = record.value
        self._clients.limit(limits)
        self.limits_clients = bool(limits)
        self._limit_addresses(ips, hosts)

    def _limit_addresses(self, ips: IpRates, hosts: Mapping[str, int]) -> None:
        """Put the quotas of addresses in force; those of hosts as soon as their addresses are known."""
        self._of_addresses, self._of_hosts = ips, hosts
        self._addresses = {name: address for name, address in self._addresses.items() if name in hosts}
        self._follow_hosts()
        if unknown := hosts.keys() - self._addresses.keys():
            loop = asyncio.get_running_loop()
            for name in unknown:
                asked = loop.run_in_executor(None, self._address_of, name)
                asked.add_done_callback(partial(self._located, name))

    def _located(self, name: str, asked: asyncio.Future[str | None]) -> None:
        if asked.cancelled() or name not in self._of_hosts:
            return
        address = asked.result()
        if address is None:
            logger.warning("a quota of the host %s has no effect: nobody knows its address", name)
            return
        self._addresses[name] = address
        self._follow_hosts()

    def _follow_hosts(self) -> None:
        known = self._addresses
        rates: dict[str | None, int] = {known[name]: rate for name, rate in self._of_hosts.items() if name in known}
        self.ip_rates = rates | dict(self._of_addresses)
        for subscriber in self._subscribers:
            subscriber(self)

    def of(self, session: Session, client_id: str) -> Allowance | None:
        """What a client is held against; None if nothing limits it."""
        return self._clients.of(session.principal, client_id, self.now_ms())

    def mutations(self, ctx: Context, *, strict_since: int) -> Mutations:
        """What a request that changes partitions is held against; from a version on it is refused, before only slow."""
        allowance = self.of(ctx.session, ctx.client_id) if self.limits_clients else None
        bucket = None if allowance is None else allowance.mutation
        return Mutations(bucket, self.now_ms, strict=ctx.api_version >= strict_since)

    def count_wait(self, kind: QuotaType, throttle_ms: int) -> None:
        """Take note that a client has to wait."""
        self.waits[kind] += 1
        self.waited_ms[kind] += throttle_ms

    async def run(self) -> None:
        """Forget what nobody uses, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._clients.forget_idle(self.now_ms())


_KINDS: Final = frozenset(QuotaType)


class Mutations:
    """The partitions that one request creates or deletes, held against its client's quota (KIP-599)."""

    def __init__(self, bucket: TokenBucket | None, now_ms: Callable[[], int], *, strict: bool) -> None:
        self._bucket = bucket
        self._now_ms = now_ms
        self._strict = strict
        self._throttle_ms = 0
        self._noted_ms = 0

    def charge(self, partitions: int) -> None:
        """Count partitions; raises ThrottlingQuotaExceeded where the quota is used up already and that is strict."""
        bucket = self._bucket
        if bucket is None:
            return
        now_ms = self._now_ms()
        if self._strict:
            self._note(bucket.throttle_ms(now_ms), now_ms)
            if self._throttle_ms > 0:
                raise ThrottlingQuotaExceeded
            bucket.take(partitions, now_ms)
        else:
            bucket.take(partitions, now_ms)
            self._note(bucket.throttle_ms(now_ms), now_ms)

    def _note(self, throttle_ms: int, now_ms: int) -> None:
        if throttle_ms > 0:
            self._throttle_ms, self._noted_ms = throttle_ms, now_ms

    @property
    def throttle_ms(self) -> int:
        """For how long the client has to wait: less what has gone by since that was found."""
        return max(0, self._throttle_ms - (self._now_ms() - self._noted_ms)) if self._throttle_ms else 0

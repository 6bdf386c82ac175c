"""The quotas of addresses: by what sockets show, however they are written, and by the names of hosts."""

from __future__ import annotations

import asyncio
import logging

from kavka.broker.quotas import Quotas
from kavka.metadata.delta import apply
from kavka.metadata.image.metadata import EMPTY
from kavka.metadata.records.settings import ClientQuotaRecord, EntityData
from kavka.model.clock import ManualClock
from kavka.model.settings import broker_values

HOSTS = {"db": "10.0.0.9", "web": "10.0.0.7"}


def limits(**rates):
    """The metadata with quotas of addresses, and what led to it."""
    records = [
        ClientQuotaRecord(
            entity=[EntityData(entity_type="ip", entity_name=name)],
            key="connection_creation_rate",
            value=float(rate),
            remove=False,
        )
        for name, rate in rates.items()
    ]
    return apply(EMPTY, records, 1, 1)


def test_an_address_is_limited_however_it_is_written():
    quotas = Quotas(broker_values({}), ManualClock())
    quotas.apply(*limits(**{"10.0.0.1": 1, "::ffff:10.0.0.2": 2, "2001:DB8:0::1": 3, "[::1]": 4}))
    assert quotas.ip_rates == {"10.0.0.1": 1, "10.0.0.2": 2, "2001:db8::1": 3, "::1": 4}


async def told(quotas, wanted):
    """Wait until the rates are these."""
    reached = asyncio.Event()
    quotas.subscribe(lambda now: reached.set() if now.ip_rates == wanted else None)
    async with asyncio.timeout(30):
        await reached.wait()


def test_a_host_is_limited_once_its_address_is_known(caplog):
    async def scenario():
        quotas = Quotas(broker_values({}), ManualClock(), HOSTS.get)
        quotas.apply(*limits(**{"db": 1, "web": 2, "10.0.0.7": 3, "nowhere": 4, "10.0.0.1": 5}))
        assert quotas.ip_rates == {"10.0.0.7": 3, "10.0.0.1": 5}  # nobody waits for names
        await told(quotas, {"10.0.0.9": 1, "10.0.0.7": 3, "10.0.0.1": 5})  # an address of its own is stronger
        quotas.apply(*limits(db=6))
        assert quotas.ip_rates == {"10.0.0.9": 6}
        quotas.apply(*limits(web=7))
        await told(quotas, {"10.0.0.7": 7})
        async with asyncio.timeout(30):
            while "host nowhere" not in caplog.text:
                await asyncio.sleep(0.01)

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())

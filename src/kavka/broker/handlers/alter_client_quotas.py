"""AlterClientQuotas: v0-1.

Behaviour:  sets and removes quotas of users, client ids and addresses, each entity as a whole; answers when they are
            committed. An address may be the name of a host that is known here.
Errors:     one per entity: 42 for an entity or a quota that there is not, or a value that is not allowed.
"""

from __future__ import annotations

import asyncio

from kavka.broker.context import Context
from kavka.broker.handlers.marks import Parts, handler, on_cluster
from kavka.controller.quotas import IP, Alteration
from kavka.net.names import address_of
from kavka.protocol.schemas.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntryData,
)
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Operation
from kavka.security.quota.limits import plain_address


@handler(
    AlterClientQuotasRequest,
    on_cluster(Operation.ALTER_CONFIGS),
    Parts(("entries",), ("entries",), 200, unique=("entity",)),
)
async def alter_client_quotas(
    request: AlterClientQuotasRequest, ctx: Context, controller: ControllerLoop
) -> AlterClientQuotasResponse:
    """Change client quotas."""
    wanted = [
        Alteration(
            tuple((component.entity_type, component.entity_name) for component in entry.entity),
            [(op.key, None if op.remove else op.value) for op in entry.ops],
        )
        for entry in request.entries
    ]
    hosts = await _known_hosts(wanted)
    outcomes = await controller.submit(
        lambda machine, _: machine.alter_client_quotas(wanted, hosts=hosts, validate_only=request.validate_only)
    )
    rows = [
        ResponseEntryData(
            error_code=0 if error is None else error.code,
            error_message=None if error is None else str(error),
            entity=entry.entity,
        )
        for entry, error in zip(request.entries, outcomes, strict=True)
    ]
    return AlterClientQuotasResponse(entries=rows)


async def _known_hosts(wanted: list[Alteration]) -> set[str]:
    """The names of hosts among the addresses that have one."""
    names = {name for alteration in wanted for kind, name in alteration.entity if kind == IP and name}
    loop, known = asyncio.get_running_loop(), set()
    for name in sorted(name for name in names if plain_address(name) is None):
        if await loop.run_in_executor(None, address_of, name) is not None:
            known.add(name)
    return known

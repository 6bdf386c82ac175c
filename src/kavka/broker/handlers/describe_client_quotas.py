"""DescribeClientQuotas: v0-1.

Behaviour:  the quotas of users, client ids and addresses that a filter matches; an empty filter matches all.
Errors:     42 for a filter that contradicts itself, 35 for a type of entity that there is not.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.metadata.quotas import Component, quotas_of
from kavka.metadata.view import MetadataView
from kavka.protocol.schemas.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kavka.security.acl import Operation


@handler(DescribeClientQuotasRequest, needs=on_cluster(Operation.DESCRIBE_CONFIGS))
async def describe_client_quotas(
    request: DescribeClientQuotasRequest, ctx: Context, view: MetadataView
) -> DescribeClientQuotasResponse:
    """Show client quotas."""
    wanted = [
        Component(component.entity_type, component.match_type, component.match) for component in request.components
    ]
    entries = [
        EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            values=[ValueData(key=key, value=value) for key, value in quotas.items()],
        )
        for entity, quotas in quotas_of(view.image, wanted, strict=request.strict).items()
    ]
    # Kafka's message for success is empty, not null
    return DescribeClientQuotasResponse(error_code=0, error_message="", entries=entries)

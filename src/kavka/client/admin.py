"""The admin client: one face for topics, groups, configs, security and the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from kavka.client.admin_cluster import ClusterAdmin
from kavka.client.admin_configs import ConfigsAdmin
from kavka.client.admin_groups import GroupsAdmin
from kavka.client.admin_placement import PlacementAdmin
from kavka.client.admin_quotas import QuotasAdmin
from kavka.client.admin_rights import RightsAdmin
from kavka.client.admin_security import SecurityAdmin
from kavka.client.admin_share import ShareGroupsAdmin
from kavka.client.admin_topics import TopicsAdmin
from kavka.client.admin_transactions import TransactionsAdmin
from kavka.client.pool import DEFAULT_TIMEOUT_MS, Pool


class Admin(
    TopicsAdmin,
    GroupsAdmin,
    ShareGroupsAdmin,
    ConfigsAdmin,
    QuotasAdmin,
    ClusterAdmin,
    PlacementAdmin,
    TransactionsAdmin,
    SecurityAdmin,
    RightsAdmin,
):
    """Administers a cluster.

    ```python
    async with Admin("127.0.0.1:9092") as admin:
        await admin.create_topic("orders", partitions=3, configs={"retention.ms": "3600000"})
        for topic in await admin.list_topics():
            print(topic.name, topic.partitions)
    ```

    Errors of the cluster are raised as the KafkaError of their code.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str] | Pool,
        *,
        security: Mapping[str, Any] | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        client_id: str = "kavka-admin",
    ) -> None:
        """`security` has options named as in Kafka's client.properties: security.protocol, ssl.*, sasl.*."""
        own = not isinstance(bootstrap, Pool)
        if isinstance(bootstrap, Pool):
            pool = bootstrap
        else:
            pool = Pool(bootstrap, client_id=client_id, security=security, timeout_ms=timeout_ms)
        super().__init__(pool)
        self._own_pool = own

    async def __aenter__(self) -> Self:
        await self._pool.any()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._own_pool:
            await self._pool.close()

    async def start(self) -> Self:
        """Open it, for whoever has no `async with` block."""
        return await self.__aenter__()

    async def stop(self) -> None:
        """Close the connections."""
        await self.__aexit__(None, None, None)

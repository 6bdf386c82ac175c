"""The admin client without asyncio."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from kavka.client import admin as _admin
from kavka.client.pool import Pool

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class AdminRunner(Protocol):
    """A client that runs coroutines for code that has no event loop."""

    pool: Pool

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine and wait for its result."""


class _Blocking(Generic[T, P]):
    """Makes a blocking method of an async one, with its signature and docstring."""

    def __init__(self, method: Callable[Concatenate[_admin.Admin, P], Coroutine[Any, Any, T]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, face: Admin, owner: type[Admin]) -> Callable[P, T]:
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return face._client.run(self._method(face._inner, *args, **kwargs))

        return call


class Admin:
    """The admin client; its methods are those of `kavka.client.Admin`."""

    def __init__(self, client: AdminRunner) -> None:
        self._client = client
        self._inner = _admin.Admin(client.pool)

    create_topic = _Blocking(_admin.Admin.create_topic)
    create_topics = _Blocking(_admin.Admin.create_topics)
    delete_topic = _Blocking(_admin.Admin.delete_topic)
    delete_topics = _Blocking(_admin.Admin.delete_topics)
    list_topics = _Blocking(_admin.Admin.list_topics)
    describe_topic = _Blocking(_admin.Admin.describe_topic)
    describe_topics = _Blocking(_admin.Admin.describe_topics)
    create_partitions = _Blocking(_admin.Admin.create_partitions)
    delete_records = _Blocking(_admin.Admin.delete_records)
    list_offsets = _Blocking(_admin.Admin.list_offsets)
    find_offsets = _Blocking(_admin.Admin.find_offsets)
    may = _Blocking(_admin.Admin.may)
    list_groups = _Blocking(_admin.Admin.list_groups)
    describe_group = _Blocking(_admin.Admin.describe_group)
    describe_groups = _Blocking(_admin.Admin.describe_groups)
    group_offsets = _Blocking(_admin.Admin.group_offsets)
    offsets_of_groups = _Blocking(_admin.Admin.offsets_of_groups)
    alter_group_offsets = _Blocking(_admin.Admin.alter_group_offsets)
    delete_group_offsets = _Blocking(_admin.Admin.delete_group_offsets)
    delete_group = _Blocking(_admin.Admin.delete_group)
    delete_groups = _Blocking(_admin.Admin.delete_groups)
    describe_configs = _Blocking(_admin.Admin.describe_configs)
    alter_configs = _Blocking(_admin.Admin.alter_configs)
    replace_configs = _Blocking(_admin.Admin.replace_configs)
    describe_quotas = _Blocking(_admin.Admin.describe_quotas)
    alter_quotas = _Blocking(_admin.Admin.alter_quotas)
    list_config_resources = _Blocking(_admin.Admin.list_config_resources)
    describe_cluster = _Blocking(_admin.Admin.describe_cluster)
    describe_quorum = _Blocking(_admin.Admin.describe_quorum)
    describe_features = _Blocking(_admin.Admin.describe_features)
    update_features = _Blocking(_admin.Admin.update_features)
    describe_log_dirs = _Blocking(_admin.Admin.describe_log_dirs)
    move_replicas = _Blocking(_admin.Admin.move_replicas)
    describe_producers = _Blocking(_admin.Admin.describe_producers)
    elect_leaders = _Blocking(_admin.Admin.elect_leaders)
    reassign = _Blocking(_admin.Admin.reassign)
    reassignments = _Blocking(_admin.Admin.reassignments)
    unregister_broker = _Blocking(_admin.Admin.unregister_broker)
    add_voter = _Blocking(_admin.Admin.add_voter)
    remove_voter = _Blocking(_admin.Admin.remove_voter)
    list_transactions = _Blocking(_admin.Admin.list_transactions)
    describe_transaction = _Blocking(_admin.Admin.describe_transaction)
    fence_producer = _Blocking(_admin.Admin.fence_producer)
    abort_transaction = _Blocking(_admin.Admin.abort_transaction)
    open_transactions = _Blocking(_admin.Admin.open_transactions)
    find_hanging = _Blocking(_admin.Admin.find_hanging)
    describe_share_group = _Blocking(_admin.Admin.describe_share_group)
    share_group_offsets = _Blocking(_admin.Admin.share_group_offsets)
    alter_share_group_offsets = _Blocking(_admin.Admin.alter_share_group_offsets)
    delete_share_group_offsets = _Blocking(_admin.Admin.delete_share_group_offsets)
    share_states = _Blocking(_admin.Admin.share_states)
    describe_acls = _Blocking(_admin.Admin.describe_acls)
    create_acls = _Blocking(_admin.Admin.create_acls)
    delete_acls = _Blocking(_admin.Admin.delete_acls)
    describe_scram_users = _Blocking(_admin.Admin.describe_scram_users)
    set_scram_credential = _Blocking(_admin.Admin.set_scram_credential)
    delete_scram_credential = _Blocking(_admin.Admin.delete_scram_credential)
    create_token = _Blocking(_admin.Admin.create_token)
    describe_tokens = _Blocking(_admin.Admin.describe_tokens)
    renew_token = _Blocking(_admin.Admin.renew_token)
    expire_token = _Blocking(_admin.Admin.expire_token)

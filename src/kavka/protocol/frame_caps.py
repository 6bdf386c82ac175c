"""How large a request may be, by its API: known from its first bytes, before the rest of it is received.

Only Produce carries data, and may be as large as `socket.request.max.bytes`. Requests with lists have a cap of their
own, far below; all others have a handful of fields. What is within a cap may still have more items than are taken: an
item of a list that is worth sending has about this many bytes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kavka.protocol.registry import API, ApiKey

SMALL_FRAME_BYTES: Final = 256 * 1024
ITEM_BYTES: Final = 128
FETCH_SHARE: Final = 4
"""Which part of the cap is Fetch's, which is decoded at once: 60,000 partitions fit."""

WITHOUT_LISTS: Final = frozenset(
    {
        ApiKey.HEARTBEAT,
        ApiKey.LIST_GROUPS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.API_VERSIONS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.UPDATE_RAFT_VOTER,
    }
)
"""The APIs whose requests name one thing or some, but not many thousands."""


class FrameCaps(NamedTuple):
    """The configured caps."""

    data: int = 100 << 20
    """Of Produce, and so of all."""
    lists: int = 8 << 20

    def of(self, api_key: int) -> int:
        """The most bytes that a request of an API may have."""
        if api_key == ApiKey.PRODUCE:
            return self.data
        if api_key == ApiKey.FETCH:
            return min(self.lists // FETCH_SHARE, self.data)
        few = api_key in WITHOUT_LISTS or api_key not in API
        return min(SMALL_FRAME_BYTES if few else self.lists, self.data)

    def items_of(self, api_key: int) -> int:
        """The most items that all lists of a request of an API may have together."""
        return (SMALL_FRAME_BYTES if api_key in WITHOUT_LISTS else max(self.lists, SMALL_FRAME_BYTES)) // ITEM_BYTES

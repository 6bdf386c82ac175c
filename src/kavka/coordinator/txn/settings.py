"""The settings that the transaction coordinator acts on."""

from __future__ import annotations

from kavka.model.settings import coordinators as keys
from kavka.model.settings.values import Values


class TransactionSettings:
    """What the node says; read once, because the machine looks often."""

    __slots__ = ("abort_interval_ms", "expiration_ms", "expire_interval_ms", "max_timeout_ms", "two_phase_commit")

    def __init__(self, values: Values) -> None:
        self.max_timeout_ms = values[keys.TRANSACTION_MAX_TIMEOUT_MS]
        self.abort_interval_ms = values[keys.TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS]
        self.expiration_ms = values[keys.TRANSACTIONAL_ID_EXPIRATION_MS]
        self.expire_interval_ms = values[keys.TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS]
        self.two_phase_commit = values[keys.TRANSACTION_TWO_PHASE_COMMIT_ENABLE]

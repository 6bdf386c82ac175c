"""How the records of `__transaction_state` lie in their log."""

from __future__ import annotations

from typing import Final

from kavka.coordinator.record import Record, RecordCodec, Unknown
from kavka.coordinator.txn.records import TransactionLogKey, TransactionLogValue
from kavka.coordinator.txn.state import MAY_FOLLOW


class TransactionCodec(RecordCodec):
    """Knows the states that are written; any other would be one that no transaction can go on from."""

    def checked(self, record: Record) -> Record | Unknown:
        """A record, if its transaction is in a state that we know."""
        status = record.value.transaction_status
        return record if status in MAY_FOLLOW else Unknown(f"a transaction of unknown status {status}")


CODEC: Final = TransactionCodec([(TransactionLogKey, TransactionLogValue)])

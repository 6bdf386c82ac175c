"""Setting and removing SCRAM credentials (KIP-554)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kavka.controller.results import bounded
from kavka.metadata.image import MetadataImage
from kavka.metadata.records.security import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from kavka.model.errors import (
    DuplicateResource,
    KafkaError,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
)
from kavka.model.transition import Transition
from kavka.security.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, Credential, Mechanism

MV_SCRAM: Final = 11
"""The metadata.version from which the log can remember credentials (3.5-IV2)."""


class Deletion(NamedTuple):
    """A credential to remove."""

    name: str
    mechanism: int


class Upsertion(NamedTuple):
    """A credential to set."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"Upsertion(name={self.name!r}, mechanism={self.mechanism})"  # the secrets never reach a log


def alter(
    image: MetadataImage, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
) -> Transition[dict[str, KafkaError | None]]:
    """Change the credentials of users, of each user one; an outcome for each user."""
    outcomes: dict[str, KafkaError | None] = {}
    records: dict[str, Any] = {}
    changes: list[Deletion | Upsertion] = [*deletions, *upsertions]
    for change in changes:
        if change.name in outcomes:
            if change.name in records:
                outcomes[change.name] = DuplicateResource(
                    "A user credential cannot be altered twice in the same request"
                )
                del records[change.name]
            continue
        try:
            records[change.name] = _record(image, change)
            outcomes[change.name] = None
        except KafkaError as error:
            outcomes[change.name] = error
    return Transition(outcomes, bounded(list(records.values())))


def _record(image: MetadataImage, change: Deletion | Upsertion) -> Any:
    if image.features.metadata_version < MV_SCRAM:
        raise UnsupportedVersion("The current metadata.version does not support SCRAM")
    if not change.name:
        raise UnacceptableCredential("Username must not be empty")
    if change.mechanism not in list(Mechanism):
        raise UnsupportedSaslMechanism("Unknown SCRAM mechanism")
    if isinstance(change, Deletion):
        if (change.name, change.mechanism) not in image.kept.scram:
            raise ResourceNotFound("Attempt to delete a user credential that does not exist")
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    if change.iterations < MIN_ITERATIONS:
        raise UnacceptableCredential("Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        raise UnacceptableCredential("Too many iterations")
    made = Credential.of_salted(Mechanism(change.mechanism), change.salted_password, change.salt, change.iterations)
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=made.salt,
        stored_key=made.stored_key,
        server_key=made.server_key,
        iterations=made.iterations,
    )

"""Setting and removing SCRAM credentials (KIP-554)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Sequence
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
        if (change.name, change.mechanism) not in image.security.scram:
            raise ResourceNotFound("Attempt to delete a user credential that does not exist")
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    if change.iterations < MIN_ITERATIONS:
        raise UnacceptableCredential("Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        raise UnacceptableCredential("Too many iterations")
    made = Credential.of_salted(Mechanism(change.mechanism), change.salted_password, change.salt, change.iterations)
    return _credential_record(change.name, change.mechanism, made)


def _credential_record(name: str, mechanism: int, made: Credential) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=made.salt,
        stored_key=made.stored_key,
        server_key=made.server_key,
        iterations=made.iterations,
    )


def parse_scram(text: str, new_salt: Callable[[], bytes]) -> UserScramCredentialRecord:
    """A credential as `--add-scram` has it, `SCRAM-SHA-256=[name=alice,password=secret]`; raises ValueError.

    `iterations` and `salt` may be given as well, and `saltedpassword` instead of the password, both in base64.
    """
    name, equals, rest = text.strip().partition("=")
    mechanism = next((mechanism for mechanism in Mechanism if mechanism.mechanism_name == name), None)
    if not equals or mechanism is None:
        known = " or ".join(mechanism.mechanism_name for mechanism in Mechanism)
        raise ValueError(f"it must begin with {known} and an equals sign")
    if not (rest.startswith("[") and rest.endswith("]")):
        raise ValueError(f"what follows {name}= must stand in brackets")
    given: dict[str, str] = {}
    for part in rest[1:-1].split(","):
        key, equals, value = part.partition("=")
        if not equals or key not in ("name", "salt", "iterations", "password", "saltedpassword"):
            raise ValueError("in the brackets belong name, password, iterations, salt and saltedpassword")
        given[key] = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    if not given.get("name"):
        raise ValueError("a name is missing")
    iterations = given.get("iterations", str(MIN_ITERATIONS))
    if not iterations.isdecimal() or not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
        raise ValueError(f"iterations must be between {MIN_ITERATIONS} and {MAX_ITERATIONS}")
    salt = _decoded(given["salt"], "salt") if "salt" in given else None
    if "password" in given:
        made = Credential.of_password(mechanism, given["password"], salt or new_salt(), int(iterations))
    elif "saltedpassword" not in given or salt is None:
        raise ValueError("a password is missing, or a saltedpassword with its salt")
    else:
        made = Credential.of_salted(
            mechanism, _decoded(given["saltedpassword"], "saltedpassword"), salt, int(iterations)
        )
    return _credential_record(given["name"], int(mechanism), made)


def _decoded(text: str, key: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ValueError(f"{key} is no base64") from None

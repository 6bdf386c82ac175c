"""A secured cluster to try things with: certificates, users, and the settings of both sides that go with them."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kavka.client.pool import Pool
from kavka.model.errors import raise_for
from kavka.protocol.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from kavka.security.sasl.scram import MIN_ITERATIONS, Mechanism
from kavka.testing.authority import Authority, Issued

ADMIN: Final = "admin"
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SCRAM: Final = "SCRAM-SHA-512"
MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    SCRAM: "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


class Secured:
    """What a cluster with TLS on all listeners needs, in a folder; its users have passwords that nobody knows yet."""

    def __init__(self, folder: Path, passwords: Mapping[str, str] | None = None, mechanism: str = SCRAM) -> None:
        self.folder = folder
        self.mechanism = mechanism
        self.authority = Authority()
        self.passwords = {ADMIN: secrets.token_urlsafe(16), **(passwords or {})}
        """By the names of users; the nodes are `admin` to each other."""
        folder.mkdir(parents=True, exist_ok=True)
        self._write("ca.pem", self.authority.pem)
        self.issue("node.pem", "kavka")

    def issue(self, file: str, name: str, *, days: float = 30) -> Issued:
        """Put a key with a new certificate into a file, all at once."""
        issued = self.authority.issue(name, days=days)
        self._write(file, issued.pem)
        return issued

    def _write(self, file: str, text: str) -> None:
        temporary = self.folder / f".{file}.tmp"
        temporary.touch(mode=0o600)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self.folder / file)

    @property
    def tls(self) -> dict[str, str]:
        """The key store and trust store of nodes."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.folder / "node.pem"),
            **self.trust,
        }

    @property
    def trust(self) -> dict[str, str]:
        """The trust store of anybody."""
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.folder / "ca.pem")}

    @property
    def users(self) -> list[str]:
        """The users, for `kavka format --add-scram`; none where the settings name them."""
        if self.mechanism == "PLAIN":
            return []
        mechanism = self.mechanism
        return [f"{mechanism}=[name={name},password={password}]" for name, password in self.passwords.items()]

    def jaas(self, user: str, *others: str) -> str:
        """A `sasl.jaas.config` for one who logs in, and those who may log in there."""
        allowed = "".join(f' user_{name}="{self.passwords[name]}"' for name in others)
        name, password = f'username="{user}"', f'password="{self.passwords[user]}"'
        return f"{MODULES[self.mechanism]} required {name} {password}{allowed};"

    @property
    def nodes(self) -> dict[str, str]:
        """The settings of nodes whose listeners are all SASL_SSL, with access rules."""
        mechanism = self.mechanism
        own = self.jaas(ADMIN, *self.passwords) if mechanism == "PLAIN" else self.jaas(ADMIN)
        key = f"{mechanism.lower()}.sasl.jaas.config"
        return {
            **self.tls,
            "security.inter.broker.protocol": "SASL_SSL",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL",
            "sasl.enabled.mechanisms": mechanism,
            "sasl.mechanism.inter.broker.protocol": mechanism,
            "sasl.mechanism.controller.protocol": mechanism,
            f"listener.name.sasl_ssl.{key}": own,
            f"listener.name.controller.{key}": own,
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": f"User:{ADMIN}",
        }

    def client(self, user: str = ADMIN) -> dict[str, str]:
        """The options of a client, as in `client.properties`."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": self.jaas(user),
            **self.trust,
        }


async def set_password(pool: Pool, name: str, password: str) -> None:
    """Give a user of a cluster a password for SCRAM-SHA-512; raises KafkaError."""
    salt = secrets.token_bytes(24)
    upsertion = ScramCredentialUpsertion(
        name=name,
        mechanism=int(Mechanism.SCRAM_SHA_512),
        iterations=MIN_ITERATIONS,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac("sha512", password.encode(), salt, MIN_ITERATIONS),
    )
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
    answer = await pool.request(request, AlterUserScramCredentialsResponse)
    for row in answer.results:
        raise_for(row.error_code, row.error_message or "")

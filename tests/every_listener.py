"""One node with listeners of all four security protocols, and every mechanism that needs a password, for tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kavka.testing import Cluster
from kavka.testing.local import free_ports
from kavka.testing.secured import MODULES, STANDARD_AUTHORIZER, Secured

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
WAYS = [
    ("PLAINTEXT", ""),
    ("SSL", ""),
    *((protocol, mechanism) for protocol in PROTOCOLS[2:] for mechanism in MECHANISMS),
]
PASSWORD = "wonder-land"


class Served(NamedTuple):
    """The node."""

    ports: dict[str, int]
    secured: Secured
    cluster: Cluster

    def bootstrap(self, protocol: str) -> str:
        """Where a protocol is spoken."""
        return f"localhost:{self.ports[protocol]}"

    @property
    def authority(self) -> str:
        """The file of the authority that vouches for the node."""
        return str(self.secured.folder / "ca.pem")


@contextlib.contextmanager
def serving(folder: Path, more: Mapping[str, str] | None = None) -> Iterator[Served]:
    """alice logs in by each mechanism, bob by PLAIN; both, and who shows a certificate as alice, may do everything."""
    made = Secured(folder, {"alice": PASSWORD})
    made.issue("alice.pem", "alice")
    (folder / "users").write_text(f"bob={PASSWORD}\n")
    ports = dict(zip(PROTOCOLS, free_ports(4), strict=True))
    users = [f"{mechanism}=[name=alice,password={PASSWORD}]" for mechanism in MECHANISMS[1:]]
    plain = f'{MODULES["PLAIN"]} required user_alice="{PASSWORD}";'
    config = {
        **made.tls,
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(f"{name}://localhost:{port}" for name, port in ports.items()),
        "ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+)$/$1/U,DEFAULT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "kavka.sasl.plain.users.file": str(folder / "users"),
        "listener.name.sasl_ssl.plain.sasl.jaas.config": plain,
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain,
        "connections.max.reauth.ms": "1200",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:alice;User:ALICE;User:bob;User:ANONYMOUS",
        "kavka.log.level": "debug",
        **(more or {}),
    }
    with Cluster(config=config, users=users) as cluster:
        yield Served(ports, made, cluster)


def options(
    served: Served, protocol: str, mechanism: str = "", user: str = "alice", password: str = PASSWORD
) -> dict[str, str]:
    """What our own client is told."""
    found = {"security.protocol": protocol}
    if "SSL" in protocol:
        found |= served.secured.trust
    if mechanism:
        found |= {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
    return found

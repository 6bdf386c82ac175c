"""SCRAM on a listener: strangers are answered as users are, by every node in the same way."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace

import pytest

from kavka.broker.sasl import MechanismSetup, mechanism_of
from kavka.metadata.image.persistent import PersistentMap
from kavka.metadata.image.security import EMPTY_SECURITY, SecurityDraft
from kavka.metadata.records.security import UserScramCredentialRecord
from kavka.model.clock import ManualClock
from kavka.model.settings import broker_values
from kavka.model.settings.listeners import ListenerValues
from kavka.net.session import Session

SHA_256 = "SCRAM-SHA-256"
SESSION = Session(1, "L", "127.0.0.1", 5)


class Node:
    """A listener with SCRAM on a node of its own."""

    def __init__(self, secret: bytes, cluster: str = "") -> None:
        self.security = EMPTY_SECURITY
        self.cluster = cluster
        settings = ListenerValues(broker_values({}), "L", SHA_256)
        setup = MechanismSetup("L", SHA_256, settings, lambda: self.security, ManualClock(), secret)
        self._mechanism = mechanism_of(replace(setup, cluster=lambda: self.cluster))

    def know(self, *users: tuple[str, bytes, int], mechanism: int = 1) -> None:
        draft = SecurityDraft(self.security)
        for name, salt, iterations in users:
            draft.keep(
                UserScramCredentialRecord(
                    name=name, mechanism=mechanism, salt=salt, stored_key=b"", server_key=b"", iterations=iterations
                )
            )
        self.security = draft.build()

    def shown(self, name: str) -> tuple[bytes, int]:
        """The salt and the iterations that somebody is answered with."""
        answer = self._mechanism.begin(SESSION).respond(f"n,,n={name},r=x".encode())
        _, salt, iterations = answer.decode().split(",")
        return b64decode(salt[2:]), int(iterations[2:])


def test_strangers_look_like_most_users() -> None:
    node = Node(b"a")
    node.know(("kafkas", b"1h0c2a3qzkm7d0ov2vp9w1vhz", 4096))
    assert node.shown("nobody")[0].isalnum()
    node.know(("b", b"\0" * 24, 8192), ("c", b"\1" * 24, 8192))
    node.know(*((str(number), b"\2" * 40, 4096) for number in range(9)), mechanism=2)
    salt, iterations = node.shown("nobody")
    assert (len(salt), iterations) == (24, 8192)
    assert node.shown("b") == (b"\0" * 24, 8192)
    node.security = replace(node.security, scram=PersistentMap())
    assert node.shown("nobody")[0].isalnum()


@pytest.mark.parametrize("name", ["nobody", "somebody"])
def test_nodes_of_a_cluster_and_its_next_start_say_the_same_of_strangers(name: str) -> None:
    first, second, other = Node(b"a", "c-1"), Node(b"b", "c-1"), Node(b"a", "c-2")
    assert first.shown(name) == second.shown(name) != other.shown(name)
    early = Node(b"a")  # its cluster is not known yet
    assert early.shown(name) != Node(b"b").shown(name)
    early.cluster = "c-1"
    assert early.shown(name) == first.shown(name)

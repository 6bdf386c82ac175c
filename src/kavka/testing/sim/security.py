"""What an operator of a simulated cluster does about security: rules, credentials, tokens and quotas, good and bad."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kavka.controller.machine import Controller
from kavka.controller.quotas import Alteration, Entity
from kavka.controller.scram import Deletion, Upsertion
from kavka.metadata.image import MetadataImage
from kavka.model.transition import Transition
from kavka.security.acl import Acl, AclFilter
from kavka.security.token import token_hmac
from kavka.testing.sim.world import World

Decide = Callable[[Controller, int], Transition[Any]]

SECRET = "the simulation's"
USERS = ("", "User:alice", "User:bob", "Group:g")
NAMES = ("", "orders", "*", "kafka-cluster")
ENTITIES: tuple[Entity, ...] = (
    (),
    (("user", "alice"),),
    (("user", None), ("client-id", "c")),
    (("ip", "::1"),),
    (("ip", "x"),),
    (("x", "y"),),
)
QUOTAS = ("producer_byte_rate", "request_percentage", "connection_creation_rate", "x")


def secured(world: World, image: MetadataImage) -> Iterator[Decide]:
    """Some decisions to ask the controller for, by chance."""
    choose = world.random.choice
    acls = [
        Acl(
            choose((0, 2, 3, 4)),
            choose(NAMES),
            choose((1, 3, 4)),
            choose((1, 3, 8)),
            choose(USERS),
            "*",
            choose((0, 2, 3)),
        )
        for _ in range(3)
    ]
    yield lambda machine, _: machine.create_acls(acls)
    wanted = AclFilter(choose((1, 2, 99)), choose((None, "orders")), choose((1, 2, 3)), 1, None, None, 1)
    if choose((True, False)):
        yield lambda machine, _: machine.delete_acls([wanted])
    user, mechanism, iterations = choose(USERS), choose((0, 1, 2)), choose((100, 4096, 99_999))
    upsertions = [Upsertion(user, mechanism, iterations, b"salt", b"salted")] * choose((1, 1, 2))
    deletions = [Deletion(choose(USERS), mechanism)] * choose((0, 1))
    yield lambda machine, _: machine.alter_scram_credentials(deletions, upsertions)
    quotas = [Alteration(choose(ENTITIES), [(choose(QUOTAS), choose((None, -1.0, 0.5, 1000.0)))]) for _ in range(2)]
    yield lambda machine, _: machine.alter_client_quotas(quotas)
    yield _about_tokens(world, image)


def _about_tokens(world: World, image: MetadataImage) -> Decide:
    choose = world.random.choice
    by, renewers, period = choose(USERS), [choose(USERS)], choose((-1, 1_000, 60_000))
    hmac = token_hmac(SECRET, choose([*(record.token_id for record in image.kept.tokens.values()), "none"]))
    kind = choose(("create", "create", "renew", "expire"))
    if kind == "create":
        return lambda machine, now_ms: machine.create_token(by, by, renewers, period, now_ms)
    if kind == "renew":
        return lambda machine, now_ms: machine.renew_token(by, hmac, period, now_ms)
    return lambda machine, now_ms: machine.expire_token(by, hmac, period, now_ms)

"""Access rules, users and quotas: what was acknowledged stays, and a broker that knows a rule goes by it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import ClassVar, Final, NamedTuple

from kavka.client.admin import Admin
from kavka.client.admin_quotas import QuotaEntity
from kavka.client.pool import Pool
from kavka.client.producer import Producer
from kavka.client.sasl.passwords import PLAIN_MODULE
from kavka.model.errors import KafkaError, TopicAuthorizationFailed, error_for
from kavka.protocol.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from kavka.security.acl import ANONYMOUS, ANYBODY, WILDCARD, Acl, AclFilter, Operation, PatternType, PermissionType
from kavka.security.acl import ResourceType as Resource
from kavka.security.sasl.scram import MIN_ITERATIONS, Mechanism
from kavka.testing.sim.client import SimClient, Workload

LISTENER, PORT = "CLIENT", 9094
USER, PASSWORD = "writer", "let-me-in"
USERS: Final = f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";'
LOGIN: Final = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{PLAIN_MODULE} required username="{USER}" password="{PASSWORD}";',
}
GUARDED: Final = "guarded"
PARTITIONS: Final = 2
RATE: Final = "producer_byte_rate"
EVERYBODY: Final = Acl(
    Resource.TOPIC, GUARDED, PatternType.PREFIXED, Operation.ALL, ANYBODY, WILDCARD, PermissionType.ALLOW
)
CLOSED: Final = Acl(
    Resource.TOPIC, GUARDED, PatternType.LITERAL, Operation.WRITE, f"User:{USER}", WILDCARD, PermissionType.DENY
)


class Known(NamedTuple):
    """How it is with writing: None where that is not known, and from which metadata on every broker has it so."""

    closed: bool | None
    offset: int


class Rights(Workload):
    """An administrator of rules, users and quotas, and a writer who is let in or not."""

    share = 0.4
    settings: ClassVar[Mapping[str, str]] = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ANONYMOUS,
        "listener.security.protocol.map": f"{LISTENER}:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": USERS,
    }
    listeners: ClassVar[Mapping[str, int]] = {LISTENER: PORT}

    def __init__(self) -> None:
        self._users: dict[str, int | None] = {}
        """By user: the iterations of the password that was set last, None where nobody knows."""
        self._quotas: dict[str, float | None] = {}
        self._known = Known(False, 0)
        self._next = 0
        self._done = 0
        self._tried = 0
        self._faults: list[str] = []

    async def prepare(self, client: SimClient) -> None:
        """Create the topic, and let everybody use it."""
        await client.create_topic(GUARDED, partitions=PARTITIONS)
        pool = client.pool()
        await client.insist(lambda: client.admin(pool).create_acls([EVERYBODY]))
        await pool.close()

    async def run(self, client: SimClient) -> None:
        """Administer and write."""
        writer = client.spawn(self._write)
        acts: list[Callable[[SimClient, Admin, Pool], Awaitable[None]]] = [self._user, self._quota, self._rule]
        pool = client.pool()
        admin = client.admin(pool)
        while client.busy:
            try:
                await client.chance.choice(acts)(client, admin, pool)
                self._done += 1
            except KafkaError:
                pass  # what is not known any more was noted before
            await asyncio.sleep(client.chance.uniform(0.05, 0.6))
        await self._settle(client, admin)
        await pool.close()
        await client.ended(writer)

    async def _user(self, client: SimClient, admin: Admin, pool: Pool) -> None:
        self._next += 1
        name, iterations = f"user{self._next % 20}", MIN_ITERATIONS + self._next
        was_known = self._users.get(name, 0) is not None
        self._users[name] = None  # for good, if this fails: a request that was given up may still arrive
        row = ScramCredentialUpsertion(
            name=name,
            mechanism=Mechanism.SCRAM_SHA_256,
            iterations=iterations,
            salt=client.chance.randbytes(16),
            salted_password=client.chance.randbytes(32),
        )
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[row])
        answer = await pool.request(request, AlterUserScramCredentialsResponse)
        if answer.results[0].error_code:
            raise error_for(answer.results[0].error_code, answer.results[0].error_message)
        if was_known:
            self._users[name] = iterations

    async def _quota(self, client: SimClient, admin: Admin, pool: Pool) -> None:
        self._next += 1
        name, rate = f"client{self._next % 20}", 1e9 + self._next
        was_known = self._quotas.get(name, 0.0) is not None
        self._quotas[name] = None
        await admin.alter_quotas(QuotaEntity(client_id=name), {RATE: rate})
        if was_known:
            self._quotas[name] = rate

    async def _rule(self, client: SimClient, admin: Admin, pool: Pool) -> None:
        """Close the topic, or open it; what failed is tried until it is so, because it may still arrive."""
        closed = client.chance.random() < 0.5
        self._known = Known(None, 0)
        await self._insist(client, admin, closed=closed)

    async def _insist(self, client: SimClient, admin: Admin, *, closed: bool) -> None:
        tries = 0
        while True:
            tries += 1
            try:
                await (admin.create_acls([CLOSED]) if closed else admin.delete_acls(AclFilter(*CLOSED)))
                break
            except KafkaError:
                await asyncio.sleep(0.1)
        if tries == 1:  # else an earlier try may be on its way still
            self._known = Known(closed, max(offsets(client).values(), default=0))

    async def _settle(self, client: SimClient, admin: Admin) -> None:
        """When the trouble is over nothing is on its way any more: say once more how it shall be."""
        await asyncio.sleep(10)
        await self._insist(client, admin, closed=client.chance.random() < 0.5)

    async def _write(self, client: SimClient) -> None:
        pool = client.pool(PORT, security=LOGIN)
        async with client.producer(pool, max_block_ms=2_000, delivery_timeout_ms=4_000) as producer:
            while client.busy:
                index = client.chance.randrange(PARTITIONS)
                before, known = offsets(client), self._known
                leader = pool.view.leader(GUARDED, index)
                refused = await self._refused(producer, index)
                if refused is not None and known.closed is not None and self._known is known:
                    self._tried += 1
                    told = leader == pool.view.leader(GUARDED, index) and before.get(leader, -1) >= known.offset
                    if told and refused != known.closed:
                        how = "refuses" if refused else "takes"
                        self._faults.append(f"node {leader} {how} what is written at {client.now:.3f} s: {known}")
                await asyncio.sleep(client.chance.uniform(0.02, 0.3))
        await pool.close()

    @staticmethod
    async def _refused(producer: Producer, index: int) -> bool | None:
        """Whether a write is refused; None if it failed."""
        try:
            await producer.send_and_wait(GUARDED, b"", partition=index)
        except TopicAuthorizationFailed:
            return True
        except KafkaError:
            return None
        return False

    async def finish(self, client: SimClient) -> None:
        """See what there is, and how every leader takes it."""
        pool = client.pool()
        admin = client.admin(pool)
        users, quotas = await admin.describe_scram_users(), await admin.describe_quotas()
        for name, iterations in self._users.items():
            found = [credential.iterations for credential in users.get(name, ())]
            if iterations is not None and found != [iterations]:
                self._faults.append(f"{name} was given {iterations} iterations and has {found}")
        for name, rate in self._quotas.items():
            has = quotas.get(QuotaEntity(client_id=name), {}).get(RATE)
            if rate is not None and has != rate:
                self._faults.append(f"{name} was given the quota {rate} and has {has}")
        acls = set(await admin.describe_acls())
        if EVERYBODY not in acls or (self._known.closed is not None and (CLOSED in acls) != self._known.closed):
            self._faults.append(f"the rules are {acls}, and {self._known} was acknowledged")
        await pool.close()
        pool = client.pool(PORT, security=LOGIN)
        async with client.producer(pool) as producer:
            for index in range(PARTITIONS):
                if await self._refused(producer, index) != (CLOSED in acls):
                    self._faults.append(f"{GUARDED}-{index} does not go by {acls}")
        await pool.close()

    def faults(self) -> Iterable[str]:
        """What is not as it was acknowledged, and who does not go by it."""
        return self._faults

    def counts(self) -> dict[str, int]:
        """How much was set, and tried."""
        return {"rights and quotas set": self._done, "guarded writes": self._tried}


def offsets(client: SimClient) -> dict[int, int]:
    """By node: up to where it has the metadata."""
    running = ((sim_node.id, sim_node.node) for sim_node in client.cluster.nodes if sim_node.ready)
    return {
        id_: node.controller.image.offset for id_, node in running if node is not None and node.controller is not None
    }

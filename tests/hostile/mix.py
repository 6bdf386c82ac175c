"""Attacks of all kinds at once, from many connections of a process of their own: `mix.py BOOTSTRAP SEED SECONDS`."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hostile.attacker import batch, packed, record_of_zeros
from hostile.blow_up import BlowUp
from kavka.broker.handlers import HANDLERS, HOT
from kavka.model.types import Uuid
from kavka.protocol.header import encode_request
from kavka.protocol.registry import API
from kavka.protocol.schemas.metadata import MetadataRequest
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

CONNECTIONS = 50
PATIENCE_S = 1.0
FRAME_BYTES = 512 << 10
PREPARED = 60
TOPIC = "attacked"
NOT_SENT = {"delete_topics", "delete_records", "unregister_broker", "update_features", "create_topics", "create_acls"}
"""What would take the others' topics and rights away, or leave more of them behind than there is room for."""
APIS = [api for api in API.values() if api.stem in {*HANDLERS, *HOT} - NOT_SENT and "broker" in api.listeners]

Attack = Callable[[random.Random, socket.socket], None]


class BlownUp:
    """Requests with a list, a string or tags that have no end; made beforehand, as that takes longer than sending."""

    def __init__(self, rng: random.Random) -> None:
        self._frames: list[bytes] = []
        while len(self._frames) < PREPARED:
            api = rng.choice(APIS)
            version = rng.randint(api.min_version, api.latest_stable_version)
            blown = BlowUp(api, version, rng.randrange(FRAME_BYTES // 8, FRAME_BYTES), Uuid.ZERO).one(rng)
            if blown is not None:
                self._frames.append(blown.frame)

    def __call__(self, rng: random.Random, client: socket.socket) -> None:
        """Send one of them."""
        client.sendall(rng.choice(self._frames))
        answer(client)


def unfinished(rng: random.Random, client: socket.socket) -> None:
    """A large frame that is begun, and dripped, and never ended."""
    client.sendall(struct.pack(">ih", 20 << 20, 0) + bytes(rng.randrange(4 << 20)))
    for _ in range(3):
        client.sendall(b"x")
        time.sleep(0.1)


def garbage(rng: random.Random, client: socket.socket) -> None:
    """Bytes of any kind."""
    client.sendall(rng.randbytes(rng.randrange(1, 100_000)))


def unread(rng: random.Random, client: socket.socket) -> None:
    """Many requests whose answers nobody takes."""
    client.sendall(encode_request(9, 1, "hostile", MetadataRequest(topics=None)) * 200)
    time.sleep(0.2)


def bomb(rng: random.Random, client: socket.socket) -> None:
    """A little that becomes much once it is decompressed."""
    codec = rng.choice((1, 3, 4))
    data = batch(packed(codec, record_of_zeros(8 << 20)), codec=codec)
    topics = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=data)])]
    client.sendall(encode_request(9, 1, "hostile", ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)))
    answer(client)


def reset(rng: random.Random, client: socket.socket) -> None:
    """A client that is gone in the middle of a frame."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.sendall(struct.pack(">ih", 1 << 20, 0) + bytes(rng.randrange(1 << 19)))


OTHERS: tuple[Attack, ...] = (unfinished, garbage, unread, bomb, reset)


def answer(client: socket.socket) -> None:
    """Read an answer, whatever it is."""
    head = client.recv(4, socket.MSG_WAITALL)
    left = struct.unpack(">i", head)[0] if len(head) == 4 else 0
    while left > 0:
        part = client.recv(min(left, 1 << 16))
        if not part:
            return
        left -= len(part)


def attack(address: tuple[str, int], seed: int, until: float, attacks: Sequence[Attack], made: list[int]) -> None:
    """One connection after another, until it is over."""
    rng = random.Random(seed)
    while time.monotonic() < until:
        made.append(seed)
        with contextlib.suppress(OSError), socket.create_connection(address, timeout=PATIENCE_S) as client:
            rng.choice(attacks)(rng, client)


def main(bootstrap: str, seed: int, seconds: float) -> None:
    """Attack, and say how often."""
    os.nice(19)  # attackers have machines of their own: they shall not take the cores of the node and its other clients
    host, _, port = bootstrap.rpartition(":")
    attacks = (*[BlownUp(random.Random(seed))] * len(OTHERS), *OTHERS)
    until = time.monotonic() + seconds
    made: list[int] = []
    threads = [
        threading.Thread(target=attack, args=((host, int(port)), seed + number, until, attacks, made))
        for number in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stdout.write(f"{len(made)} attacks from {CONNECTIONS} connections\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))

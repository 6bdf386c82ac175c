"""S3 as two servers speak it that nobody here wrote: moto's, and versitygw over a directory."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.scale import FULL

from kavka.testing.local import free_ports

SERVERS = ["moto", "versitygw"]
BUCKET = "tiers"
ACCESS_KEY, SECRET_KEY = "kavka", "kavka-secret-key"
ROOT = Path(__file__).parent.parent
PLACES = {
    "versitygw": ".cache/versitygw/versitygw",
    "azurite-blob": ".cache/azurite/node_modules/.bin/azurite-blob",
}
"""Where `make object-servers` puts servers that are not on the path."""
PATIENCE = 30.0


@contextmanager
def s3_server(name: str, folder: Path) -> Iterator[dict[str, str]]:
    """A server on loopback that has a bucket; how it is reached, as options of the store."""
    pytest.importorskip("obstore", reason="obstore is not installed: the extra cloud")
    with moto() if name == "moto" else versitygw(folder) as endpoint:
        yield {
            "endpoint": endpoint,
            "access_key_id": ACCESS_KEY,
            "secret_access_key": SECRET_KEY,
            "region": "us-east-1",
        }


@contextmanager
def moto() -> Iterator[str]:
    """moto's server, in this process."""
    server_module = pytest.importorskip("moto.server", reason="moto is not installed: the extra test")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    try:
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")).close()
        yield endpoint
    finally:
        server.stop()


@contextmanager
def versitygw(folder: Path) -> Iterator[str]:
    """versitygw, in a process of its own."""
    program = built("versitygw")
    root, (port,) = folder / "versitygw", free_ports(1)
    (root / BUCKET).mkdir(parents=True)
    keys = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
    arguments = ["--port", f"127.0.0.1:{port}", "--quiet", "posix", str(root)]
    with served([program, *arguments], port, folder / "versitygw.log", keys):
        yield f"http://127.0.0.1:{port}"


def built(name: str) -> str:
    """A server's program; it is built where everything is run and its tools are there."""
    program, place = shutil.which(name), ROOT / PLACES[name]
    if program is None and not place.exists() and FULL:
        subprocess.run(["make", "-C", str(ROOT), PLACES[name]], check=False)
    if program is None and not place.exists():
        pytest.skip(f"{name} is neither on the path nor in {PLACES[name]}: make object-servers (takes Go and npm)")
    return program or str(place)


@contextmanager
def served(command: list[str], port: int, log: Path, more: Mapping[str, str] | None = None) -> Iterator[None]:
    """A process that takes connections, until the block ends."""
    with log.open("wb") as file:
        process = subprocess.Popen(command, env={**os.environ, **(more or {})}, stdout=file, stderr=file)
        try:
            await_open(process, port)
            yield
        finally:
            process.kill()
            process.wait()


def await_open(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until a port takes connections."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert process.poll() is None, "the server has ended"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.02)

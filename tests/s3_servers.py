"""S3 as two servers speak it that nobody here wrote: moto's, and versitygw over a directory."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kavka.testing.local import free_ports

SERVERS = ["moto", "versitygw"]
BUCKET = "tiers"
ACCESS_KEY, SECRET_KEY = "kavka", "kavka-secret-key"
BINARY = Path(__file__).parent.parent / ".cache" / "versitygw" / "versitygw"
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
    """versitygw, in a process of its own; `go install github.com/versity/versitygw/cmd/versitygw` makes it."""
    program = shutil.which("versitygw") or (str(BINARY) if BINARY.exists() else None)
    if program is None:
        pytest.skip(f"versitygw is neither on the path nor at {BINARY.relative_to(BINARY.parents[2])}")
    root, (port,) = folder / "versitygw", free_ports(1)
    (root / BUCKET).mkdir(parents=True)
    keys = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
    with (folder / "versitygw.log").open("wb") as log:
        process = subprocess.Popen(
            [program, "--port", f"127.0.0.1:{port}", "--quiet", "posix", str(root)],
            env={**os.environ, **keys},
            stdout=log,
            stderr=log,
        )
        try:
            await_open(process, port)
            yield f"http://127.0.0.1:{port}"
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

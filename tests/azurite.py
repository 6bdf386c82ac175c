"""Azure's store as Azurite speaks it, which nobody here wrote."""

from __future__ import annotations

import base64
import hashlib
import hmac
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

import pytest
from tests.s3_servers import BUCKET, built, served

from kavka.testing.local import free_ports

ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = base64.b64encode(b"a key of sixty-four bytes that is known to nobody but this test.").decode()


@contextmanager
def azurite_server(folder: Path) -> Iterator[dict[str, str]]:
    """Azurite with a container, in a process of its own; how it is reached, as options of the store."""
    pytest.importorskip("obstore", reason="obstore is not installed: the extra cloud")
    program, (port,) = built("azurite-blob"), free_ports(1)
    arguments = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--skipApiVersionCheck"]
    accounts = {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"}
    with served([program, *arguments, "--silent"], port, folder / "azurite.log", accounts):
        create_container(f"http://127.0.0.1:{port}")
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        yield {"account_name": ACCOUNT, "account_key": ACCOUNT_KEY, "endpoint": endpoint}


def create_container(endpoint: str) -> None:
    """Make the container, signed as Azure has it."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    named = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    signed = "PUT" + "\n" * 12 + named + f"/{ACCOUNT}/{ACCOUNT}/{BUCKET}\nrestype:container"
    digest = hmac.digest(base64.b64decode(ACCOUNT_KEY), signed.encode(), hashlib.sha256)
    headers |= {"Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}", "Content-Length": "0"}
    place = f"{endpoint}/{ACCOUNT}/{BUCKET}?restype=container"
    urllib.request.urlopen(urllib.request.Request(place, headers=headers, method="PUT")).close()

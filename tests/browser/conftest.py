"""A browser that the machine has, driven by playwright, and a node with a console for it to look at."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.client.blocking import Client
from kavka.model.types import TopicPartition
from kavka.testing import Cluster

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "build" / "console"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
AXE = ROOT / ".cache" / "axe"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser; not for longer than a file's tests: while playwright runs, nothing else can run a loop."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install playwright")
    program = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The script that finds what keeps people out of a page."""
    script = AXE / "package" / "axe.min.js"
    if not script.exists():
        if shutil.which("npm") is None:
            pytest.skip("axe-core is fetched with npm, and there is none: apt-get install npm")
        AXE.mkdir(parents=True, exist_ok=True)
        fetched = subprocess.run(["npm", "pack", "axe-core@4"], cwd=AXE, capture_output=True, text=True, timeout=120)
        if fetched.returncode:
            pytest.skip("axe-core cannot be fetched: npm pack axe-core")
        with tarfile.open(AXE / fetched.stdout.strip().splitlines()[-1]) as packed:
            packed.extract("package/axe.min.js", AXE, filter="data")
    return script.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def node() -> Iterator[Cluster]:
    """A node with something to look at."""
    config = {"kavka.console.listener": "127.0.0.1:0", "kavka.registry.listener": "127.0.0.1:0"}
    with Cluster(config=config) as running:
        with Client(running.bootstrap) as client:
            for topic, partitions in (("orders", 3), ("payments", 2), ("clicks", 6), ("empty", 1)):
                client.admin.create_topic(topic, partitions=partitions)
            with client.producer() as producer:
                for number in range(120):
                    order = {"order": number, "customer": f"c-{number % 7}", "total": number * 3.5, "paid": True}
                    headers = (("trace", b"4bf92f3577b34da6"),)
                    producer.send("orders", json.dumps(order).encode(), key=b"order-%d" % number, headers=headers)
                    producer.send("clicks", b"/shop/item/%d" % number)
                producer.send("payments", b"<script>document.title='owned'</script>", key=b"<b>evil</b>")
                producer.send("payments", b"\x00\x01\x02\xff\xfe", key=b"\xff")
            client.admin.alter_group_offsets("billing", {TopicPartition("orders", index): 10 for index in range(3)})
            client.admin.alter_group_offsets("reporting", {TopicPartition("clicks", index): 1 for index in range(6)})
            client.admin.alter_share_group_offsets("workers", {TopicPartition("orders", 0): 5})
        yield running


@pytest.fixture
def shot() -> Callable[[Any, str], None]:
    """Keeps a picture of a page."""

    def keep(page: Any, name: str) -> None:
        SHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SHOTS / f"{name}.png")

    return keep

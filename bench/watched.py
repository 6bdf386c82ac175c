"""Somebody who looks: a console with a live tail of the newest topic and its overview, and a scrape each second."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from urllib.error import URLError
from urllib.request import Request, urlopen

from kavka.client import blocking
from kavka.model.errors import KafkaError
from kavka.testing import Cluster

CONFIG = {"kavka.console.listener": "127.0.0.1:0", "kavka.metrics.listener": "127.0.0.1:0"}
LOOK_SECONDS = 0.2
SCRAPE_SECONDS = 1.0
REFRESH_SECONDS = 4.0
"""How often the console's script refreshes a page."""
AWAY = (URLError, OSError, http.client.HTTPException)


class Watcher:
    """The threads of one who looks at a node, and what they saw."""

    def __init__(self, cluster: Cluster) -> None:
        self._bootstrap = cluster.bootstrap
        self._console = cluster.console
        self._metrics = f"http://{cluster.node(1).ready['metrics']}/metrics"
        self._over = threading.Event()
        self._newest = ""
        self.scrapes = self.pages = self.events = 0

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Look for the time of a block."""
        scraping, refreshing = self._every(SCRAPE_SECONDS, self._scrape), self._every(REFRESH_SECONDS, self._page)
        work = (self._find, self._tail, scraping, refreshing)
        threads = [threading.Thread(target=each, daemon=True) for each in work]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join(5)

    def _find(self) -> None:
        """Know the newest topic, which is the one that the load goes to."""
        known: set[str] = set()
        with blocking.Client(self._bootstrap) as client:
            while not self._over.wait(LOOK_SECONDS):
                with contextlib.suppress(KafkaError):
                    now = {topic.name for topic in client.admin.list_topics()}
                    self._newest = next(iter(now - known), self._newest if self._newest in now else "")
                    known = now

    def _tail(self) -> None:
        """Follow the newest topic as a browser does, until there is another one."""
        while not self._over.wait(LOOK_SECONDS):
            topic = self._newest
            if topic:
                with contextlib.suppress(*AWAY):
                    self._follow(topic)

    def _follow(self, topic: str) -> None:
        asked = Request(f"{self._console}/topics/{topic}/events", headers={"Accept": "text/event-stream"})
        with urlopen(asked, timeout=5) as answer:
            for line in answer:
                self.events += line.startswith(b"data:")
                if self._over.is_set() or self._newest != topic:
                    return

    def _every(self, seconds: float, work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            while not self._over.wait(seconds):
                with contextlib.suppress(*AWAY):
                    work()

        return run

    def _scrape(self) -> None:
        with urlopen(self._metrics, timeout=5) as answer:
            answer.read()
        self.scrapes += 1

    def _page(self) -> None:
        with urlopen(f"{self._console}/", timeout=5) as answer:
            answer.read()
        self.pages += 1


def settled(cluster: Cluster, seconds: float = 20.0) -> None:
    """Wait until the console answers."""
    ends = time.monotonic() + seconds
    while True:
        with contextlib.suppress(*AWAY), urlopen(f"{cluster.console}/healthz", timeout=5):
            return
        if time.monotonic() > ends:
            raise TimeoutError("the console does not answer")
        time.sleep(LOOK_SECONDS)

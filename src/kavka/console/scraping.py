"""Reading the page of metrics of a node: it tells what clients' protocol does not."""

from __future__ import annotations

from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener


def get(address: str, path: str, seconds: float) -> tuple[int, str]:
    """The status and text of a page; raises OSError if there is none."""
    opener = build_opener(ProxyHandler({}))  # a node is asked itself, whatever the environment says of others
    try:
        with opener.open(f"http://{address}{path}", timeout=seconds) as answer:
            return 200, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def numbers(page: str) -> dict[str, float]:
    """The samples of a page, by name and labels as they are written."""
    found: dict[str, float] = {}
    for line in page.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found

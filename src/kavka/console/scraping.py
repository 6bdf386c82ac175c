"""Reading the page of metrics of a node: it tells what clients' protocol does not."""

from __future__ import annotations

from http import HTTPStatus
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener


def get(address: str, path: str, seconds: float) -> tuple[int, str]:
    """The status and text of a page; raises OSError if there is none."""
    opener = build_opener(ProxyHandler({}))  # a node is asked itself, whatever the environment says of others
    try:
        with opener.open(f"http://{address}{path}", timeout=seconds) as answer:
            return 200, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except URLError as error:
        raise OSError(getattr(error.reason, "strerror", None) or str(error.reason)) from None
    except (HTTPException, UnicodeDecodeError):
        raise OSError("whoever answers there does not speak HTTP") from None


def samples(address: str, seconds: float) -> dict[str, float]:
    """The samples of a node's page; raises OSError if there is none."""
    status, text = get(address, "/metrics", seconds)
    try:
        if status == HTTPStatus.OK:
            return numbers(text)
    except ValueError:
        pass
    raise OSError("what is there is no page of metrics")


def numbers(page: str) -> dict[str, float]:
    """The samples of a page, by name and labels as they are written."""
    found: dict[str, float] = {}
    for line in page.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found

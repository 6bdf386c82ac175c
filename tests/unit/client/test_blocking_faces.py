"""Whatever the async clients can do, the blocking ones can."""

from __future__ import annotations

import inspect

import pytest

from kavka.client import Admin, Consumer, Producer, blocking

# the delivery that a blocking send returns has result(); blocking objects are open when they are made, until close()
ANOTHER_WAY = {"send_and_wait", "start", "stop"}


@pytest.mark.parametrize(
    ("awaited", "blocking_face"),
    [(Admin, blocking.Admin), (Producer, blocking.Producer), (Consumer, blocking.Consumer)],
    ids=lambda face: face.__module__,
)
def test_every_coroutine_has_a_blocking_face(awaited: type, blocking_face: type) -> None:
    names = {name for name, _ in inspect.getmembers(awaited, inspect.iscoroutinefunction) if not name.startswith("_")}
    assert names
    assert names - set(dir(blocking_face)) - ANOTHER_WAY == set()

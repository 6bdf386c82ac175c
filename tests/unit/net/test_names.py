"""Where hosts are."""

from __future__ import annotations

import pytest

from kavka.net.names import address_of


def test_a_host_is_where_its_first_address_of_ipv4_is():
    assert address_of("localhost") == "127.0.0.1"


@pytest.mark.parametrize("name", ["not an address!", "a..b", "x" * 300, "nul\0", "\udc80"])
def test_what_is_no_name_is_nowhere(name):
    assert address_of(name) is None

from __future__ import annotations

import asyncio

import pytest

from kavka.client.dial import TcpDial, parse_address, parse_bootstrap
from kavka.model.errors import NetworkException


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("broker", ("broker", 9092)),
        ("broker:1", ("broker", 1)),
        (" 127.0.0.1:29092 ", ("127.0.0.1", 29092)),
        ("[::1]:9093", ("::1", 9093)),
        ("[::1]", ("::1", 9092)),
        ("fe80::1", ("fe80::1", 9092)),
    ],
)
def test_an_address_is_a_host_and_perhaps_a_port(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["", ":9092", "host:port", "host:70000", "host:-1", "host:٣"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        parse_address(text)


def test_a_bootstrap_list_is_separated_by_commas() -> None:
    assert parse_bootstrap("a:1, b ,") == [("a", 1), ("b", 9092)]


def test_an_empty_bootstrap_list_is_refused() -> None:
    with pytest.raises(ValueError, match="no bootstrap address"):
        parse_bootstrap(" , ")


def test_a_refused_connection_is_a_network_exception_that_names_the_address() -> None:
    async def dial() -> None:
        server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        with pytest.raises(NetworkException, match=f"127.0.0.1:{port}"):
            await TcpDial().dial("127.0.0.1", port, asyncio.BufferedProtocol())

    asyncio.run(dial())


def test_several_addresses_are_a_list_or_a_text() -> None:
    expected = [("a", 1), ("b", 9092)]
    assert parse_bootstrap(["a:1", "b"]) == parse_bootstrap("a:1,b") == expected
    with pytest.raises(TypeError, match="an address is a text such as 'host:9092', not 9092"):
        parse_bootstrap([9092])  # type: ignore[list-item]

"""`kavka console`: it says where it listens, or in one line why it cannot."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from json_names import documented


def console(listen: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "kavka", "console", "--no-open", "--listen", listen]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize("listen", ["127.0.0.1:99999", "127.0.0.1:-1", "9000"])
def test_an_address_that_is_none_is_a_usage_error(listen: str) -> None:
    code, said = console(listen)
    assert code == 2
    assert f"'{listen}' is not HOST:PORT" in " ".join(said.replace("│", " ").split())


def test_a_port_that_is_taken_is_told_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        assert console(listen) == (1, f"kavka: cannot listen on {listen}: Address already in use\n")
    code, said = console("name.invalid:1")
    assert (code, said.count("\n")) == (1, 1)
    assert said.startswith("kavka: cannot listen on name.invalid:1: ")


def test_scripts_are_told_where_it_listens() -> None:
    command = [sys.executable, "-m", "kavka", "console", "--no-open", "--listen", "127.0.0.1:0", "--output", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        documented("kavka console", process.stdout.readline())
        process.terminate()

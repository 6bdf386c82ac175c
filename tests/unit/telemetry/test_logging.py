from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from kavka.telemetry.logging import Redactor, set_up_logging


@pytest.fixture(autouse=True)
def _logging_left_as_it_was() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("kavka")
    before = root.handlers, ours.level
    yield
    root.handlers, ours.level = before


def logged(log_format: str, *args: object, level: str = "INFO", secrets: tuple[str, ...] = ()) -> str:
    stream = io.StringIO()
    set_up_logging(level, log_format, secrets=secrets, stream=stream)
    logging.getLogger("kavka.broker.main").info(*args)  # type: ignore[arg-type]
    return stream.getvalue()


def test_a_log_is_one_line_with_time_level_and_place() -> None:
    line = logged("text", "serving %s\nand more", "PLAINTEXT")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} INFO +broker\.main: serving PLAINTEXT and more\n", line)


def test_json_is_one_object_for_each_line() -> None:
    fields = json.loads(logged("json", "č %d", 5))
    assert fields["message"] == "č 5"
    assert (fields["level"], fields["logger"]) == ("info", "kavka.broker.main")
    assert fields["time"].endswith("Z")


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_failure_shows_where_it_happened(log_format: str) -> None:
    stream = io.StringIO()
    set_up_logging(log_format=log_format, stream=stream)
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        logging.getLogger("kavka").exception("failed")
    assert "RuntimeError: boom" in stream.getvalue()
    assert "Traceback" in stream.getvalue()


def test_what_is_below_the_level_is_not_written() -> None:
    assert logged("text", "chatter", level="warning") == ""


def test_others_are_heard_when_something_is_wrong() -> None:
    stream = io.StringIO()
    set_up_logging(stream=stream)
    logging.getLogger("asyncio").error("a task failed")
    assert "asyncio: a task failed" in stream.getvalue()


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize(
    "message",
    [
        "ssl.keystore.password=hunter2",
        "{'ssl.keystore.password': 'hunter2', 'x': 1}",
        'listener.name.a.plain.sasl.jaas.config = Login required user="a" password="hunter2";',
        "sasl.oauthbearer.client.credentials.client.secret: hunter2",
    ],
)
def test_the_value_of_a_secret_setting_is_hidden(log_format: str, message: str) -> None:
    line = logged(log_format, "config %s", message)
    assert "hunter2" not in line
    assert "[hidden]" in line


def test_a_secret_it_is_told_of_is_hidden_wherever_it_appears() -> None:
    assert "hunter2" not in logged("text", "login with hunter2 failed", secrets=("hunter2", ""))


def test_what_is_no_secret_stays() -> None:
    assert Redactor()("ssl.keystore.location=/x ssl.keystore.type=PEM") == (
        "ssl.keystore.location=/x ssl.keystore.type=PEM"
    )

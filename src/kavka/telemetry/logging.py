"""Logs: one line each on standard error, for people or as JSON, with secrets hidden."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Iterable
from typing import Final, TextIO

from kavka.model.settings import BROKER

HIDDEN: Final = "[hidden]"


class Redactor:
    """Hides the values of settings that are secrets, and secrets it is told."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        keys = sorted((name for name, setting in BROKER.items() if setting.sensitive), key=len, reverse=True)
        # what follows such a key on its line is hidden to the end: a JAAS text has blanks and quotes in it
        self._keyed = re.compile(rf"((?:{'|'.join(map(re.escape, keys))})['\"]?\s*[=:]\s*)[^\n]+")
        self._secrets = sorted(filter(None, secrets), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return self._keyed.sub(rf"\1{HIDDEN}", text)


class TextFormatter(logging.Formatter):
    """Time, level, part of the program, message; a traceback follows on lines of its own."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """One log line."""
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        part = record.name.removeprefix("kavka.")
        message = record.getMessage().replace("\n", " ")
        line = f"{clock}.{int(record.msecs):03d} {record.levelname:<7} {part}: {message}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return self._redact(line)


class JsonFormatter(logging.Formatter):
    """The same as one JSON object for each line."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """One JSON line."""
        import json  # only who asks for JSON needs it

        clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{clock}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redact(record.getMessage()),
        }
        if record.exc_info:
            fields["exception"] = self._redact(self.formatException(record.exc_info))
        return json.dumps(fields, ensure_ascii=False)


def set_up_logging(
    level: str = "INFO",
    log_format: str = "text",
    *,
    secrets: Iterable[str] = (),
    stream: TextIO | None = None,
) -> None:
    """Send the program's logs to standard error; replaces what an earlier call set up."""
    redact = Redactor(secrets)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(redact) if log_format == "json" else TextFormatter(redact))
    logging.getLogger().handlers = [handler]  # of the root, so that what asyncio has to say is seen as well
    logging.getLogger("kavka").setLevel(level.upper())

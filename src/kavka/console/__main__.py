"""`python -m kavka.console FD`: the console of a node that has started this, on a socket that it has opened."""

from __future__ import annotations

import os
import socket
import sys
from typing import Final

from kavka.console.settings import read_settings
from kavka.telemetry.logging import set_up_logging

NICENESS: Final = 5
"""The broker comes first where there are not enough cores for both."""


def main() -> None:
    """Serve until the node, which is at the other end of standard input, is gone."""
    settings = read_settings(sys.stdin.buffer.readline())
    told = [*settings.security.items(), *settings.registry_options.items(), *settings.tls.items()]
    secrets = [
        text for name, text in told if any(word in name for word in ("password", "jaas", "auth.", "keystore.key"))
    ]
    set_up_logging(settings.log_level, settings.log_format, secrets=secrets)
    os.nice(NICENESS)
    from kavka.console.server import serve

    serve(settings, socket.socket(fileno=int(sys.argv[1])), lifeline=sys.stdin.fileno())


if __name__ == "__main__":
    main()

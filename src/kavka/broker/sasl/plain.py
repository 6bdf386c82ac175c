"""SASL/PLAIN on a listener: users and passwords from `sasl.jaas.config`, from a file, or judged by a function."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping
from typing import Final

from kavka.broker.sasl import MechanismSetup
from kavka.model.properties import parse_properties
from kavka.model.settings import KAVKA_SASL_PLAIN_USERS_FILE, SASL_JAAS_CONFIG
from kavka.net.session import Session
from kavka.security.sasl.plain import PlainServer

logger = logging.getLogger(__name__)

MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
USER: Final = "user_"


class Plain:
    """Who may log in with a password."""

    def __init__(self, users: Mapping[str, str], secret: bytes) -> None:
        self._secret = secret
        self._users = {name: self._digest(password) for name, password in users.items()}
        self._nobody = self._digest("")  # as long as any other: a stranger costs the same comparison

    def begin(self, session: Session) -> PlainServer:
        """Judge one login."""
        return PlainServer(self._check)

    def _check(self, name: str, password: str) -> bool:
        expected = self._users.get(name)
        same = hmac.compare_digest(self._digest(password), self._nobody if expected is None else expected)
        return same and expected is not None

    def _digest(self, password: str) -> bytes:
        """What is compared instead of the password: of one length, and nothing that a memory dump would show."""
        return hmac.digest(self._secret, password.encode("utf-8", "surrogatepass"), hashlib.sha256)


class Judged:
    """Who may log in is for a function to say."""

    def __init__(self, judge: Callable[[str, str], object]) -> None:
        self._judge = judge

    def begin(self, session: Session) -> PlainServer:
        """Judge one login."""
        return PlainServer(self._check)

    def _check(self, name: str, password: str) -> bool:
        try:
            return self._judge(name, password) is True
        except Exception as error:
            # no traceback: what it has to do with may be in the error
            logger.error("the function that judges passwords has failed: %s", type(error).__name__)
            return False


def mechanism(setup: MechanismSetup) -> Plain | Judged:
    """PLAIN with the users of a listener; raises SettingError where there are none."""
    judge = setup.judge()
    if judge is not None:
        return Judged(judge)
    entry = setup.jaas(MODULE)
    users: dict[str, str] = {}
    if entry is not None:
        users = {key[len(USER) :]: value for key, value in entry.options.items() if key.startswith(USER)}
    path = setup.settings[KAVKA_SASL_PLAIN_USERS_FILE]
    if path is not None:
        users |= _read(setup, path)
    if entry is None and path is None:
        key = f"listener.name.{setup.listener.lower()}.plain.{SASL_JAAS_CONFIG.name}"
        raise setup.refusal(key, f"it or {KAVKA_SASL_PLAIN_USERS_FILE.name} must name the users")
    return Plain(users, setup.secret)


def _read(setup: MechanismSetup, path: str) -> Mapping[str, str]:
    key = KAVKA_SASL_PLAIN_USERS_FILE.name
    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read())
    except OSError as error:
        raise setup.refusal(key, f"{path}: {error.strerror}") from None
    except ValueError:  # its words could show a password
        raise setup.refusal(key, f"{path} is no file of lines name=password") from None

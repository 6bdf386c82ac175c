"""`sasl.jaas.config`: the one line of Java's login configuration that Kafka's users know how to write.

`org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b" user_a="b";` names what is
logged in with, and on a broker who may log in. No class of that name is ever looked for: each mechanism takes the
names of its own modules and refuses the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<end>;) | (?P<equals>=)
        | "(?P<double>(?:\\.|[^"\\])*)" | '(?P<single>(?:\\.|[^'\\])*)'
        | (?P<word>[^\s=;"']+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class JaasError(ValueError):
    """A line that cannot be read; says where, and never shows a value."""


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login module with its options."""

    module: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"JaasEntry({self.module}, {sorted(self.options)})"  # values are secrets

    def option(self, name: str) -> str:
        """An option that must be there; raises JaasError."""
        try:
            return self.options[name]
        except KeyError:
            raise JaasError(f"{self.module} has no option {name}") from None


def parse_jaas(text: str) -> JaasEntry:
    """The single login module of a line; raises JaasError."""
    tokens = _tokens(text)
    ends = [index for index, (kind, _) in enumerate(tokens) if kind == "end"]
    if not ends:
        raise JaasError("it does not end with a semicolon")
    if len(ends) > 1 or ends[0] != len(tokens) - 1:
        raise JaasError("it must have exactly one login module")
    if len(tokens) < 3 or tokens[0][0] == "equals" or tokens[1][1].lower() not in _FLAGS:
        raise JaasError("it must begin with a login module and `required`")
    pairs = tokens[2:-1]
    if len(pairs) % 3:
        raise JaasError("its options must be of the form name=value")
    options: dict[str, str] = {}
    for (kind, name), (middle, _), (last, value) in zip(pairs[::3], pairs[1::3], pairs[2::3], strict=True):
        if kind == "equals" or middle != "equals" or last == "equals":
            raise JaasError("its options must be of the form name=value")
        options[name] = value
    return JaasEntry(tokens[0][1], options)


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    pos, text = 0, text.strip()
    while pos < len(text):
        token = _TOKEN.match(text, pos)
        if token is None:
            raise JaasError(f"it cannot be read from character {pos + 1} on: is a quote not closed?")
        kind = token.lastgroup or "word"
        value = token[kind]
        if kind in ("double", "single"):
            value = _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), value)
        found.append((kind if kind in ("end", "equals") else "word", value))
        pos = token.end()
    return found

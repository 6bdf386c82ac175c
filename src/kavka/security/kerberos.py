"""Which user a Kerberos principal is: `sasl.kerberos.principal.to.local.rules`, in Java's notation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from kavka.security.principal import expanded

_NAME: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE: Final = re.compile(
    r"(?P<default>DEFAULT)"
    r"|RULE:\[(?P<components>\d+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PARAMETER: Final = re.compile(r"\$(\d*)")


class _Rule(NamedTuple):
    components: int
    format: str
    match: re.Pattern[str] | None
    pattern: re.Pattern[str] | None
    to: str
    everywhere: bool
    case: str

    def apply(self, names: list[str]) -> str | None:
        """The user by this rule; `names` are the realm and the components."""
        if len(names) - 1 != self.components:
            return None
        base = _PARAMETER.sub(lambda found: names[int(found[1])], self.format)
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        if self.pattern is not None:
            base = self.pattern.sub(lambda found: expanded(found, self.to), base, 0 if self.everywhere else 1)
        if "/" in base or "@" in base:
            return ""  # no user's name: a rule that makes one is an operator's mistake, and lets nobody in
        return {"L": base.lower, "U": base.upper}.get(self.case, lambda: base)()


class _Default(NamedTuple):
    """Who is of the own realm is the first component."""

    realm: str

    def apply(self, names: list[str]) -> str | None:
        """The user by this rule."""
        return names[1] if names[0] == self.realm else None


class PrincipalToLocal:
    """The rules; the first that has a name for a principal counts."""

    def __init__(self, rules: Iterable[str], default_realm: str) -> None:
        """Raises ValueError for a rule that cannot be read."""
        self._rules = [_read(rule, default_realm) for rule in rules]

    def __call__(self, principal: str) -> str | None:
        """The user that a principal is; None if no rule says so."""
        found = _NAME.fullmatch(principal)
        if found is None:
            return None if "@" in principal else principal
        service, host, realm = found.groups()
        names = [realm, service] if host is None else [realm, service, host]
        for rule in self._rules:
            name = rule.apply(names)
            if name is not None:
                return name or None
        return None


def _read(rule: str, default_realm: str) -> _Rule | _Default:
    found = _RULE.fullmatch(rule)
    if found is None:
        raise ValueError(f"{rule!r} is no RULE:[n:string](regexp)s/pattern/replacement/gL or DEFAULT")
    if found["default"]:
        return _Default(default_realm)
    components = int(found["components"])
    for number in _PARAMETER.findall(found["format"]):
        if not number or int(number) > components:
            raise ValueError(f"{rule!r} has a parameter ${number} beyond its {components} components")
    try:
        match = None if found["match"] is None else re.compile(found["match"])
        pattern = None if found["pattern"] is None else re.compile(found["pattern"])
    except re.error as error:
        raise ValueError(f"{rule!r} has a part that is no regular expression: {error}") from None
    return _Rule(
        components, found["format"], match, pattern, found["to"] or "", bool(found["all"]), found["case"] or ""
    )

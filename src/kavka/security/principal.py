"""Who a client is by its certificate: the subject's name as Java prints it, and `ssl.principal.mapping.rules`.

Kafka takes `X500Principal.getName()`, which is RFC 2253 in Java's own reading of it: rules for principals and ACLs
are written against those very characters, so they are made here from the bytes of the certificate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

ANONYMOUS_NAME: Final = "ANONYMOUS"

_SEQUENCE, _SET, _OID, _EXPLICIT_0 = 0x30, 0x31, 0x06, 0xA0
_STRINGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E})
"""The tags of strings. Java reads the bytes of each of them as UTF-8, those of two bytes a character as well."""
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')


class MalformedNameError(ValueError):
    """The bytes are no certificate, or no name."""


class _Element(NamedTuple):
    """One DER element: its tag, its contents, and all its bytes."""

    tag: int
    value: bytes
    whole: bytes


def subject_of(certificate: bytes) -> bytes:
    """The subject's name in a certificate, both in DER."""
    outer = next(_elements(certificate), None)
    fields = next(_elements(outer.value), None) if outer is not None and outer.tag == _SEQUENCE else None
    if fields is None or fields.tag != _SEQUENCE:
        raise MalformedNameError("the certificate is not one")
    rows = [element for element in _elements(fields.value) if element.tag != _EXPLICIT_0]  # without its version
    if len(rows) < 5:  # serial number, algorithm, issuer, validity, subject
        raise MalformedNameError("the certificate has no subject")
    return rows[4].whole


def distinguished_name(name: bytes) -> str:
    """A name in DER as Java prints it: the last part first."""
    outer = next(_elements(name), None)
    if outer is None or outer.tag != _SEQUENCE:
        raise MalformedNameError("the name is no sequence")
    parts = []
    for part in _elements(outer.value):
        if part.tag != _SET:
            raise MalformedNameError("a part of the name is no set")
        parts.append("+".join(_attribute(pair) for pair in _elements(part.value)))
    return ",".join(reversed(parts))


def _attribute(pair: _Element) -> str:
    inner = list(_elements(pair.value))
    if pair.tag != _SEQUENCE or len(inner) != 2 or inner[0].tag != _OID:
        raise MalformedNameError("a part of the name is no pair of type and value")
    kind, value = _dotted(inner[0].value), inner[1]
    keyword = _KEYWORDS.get(kind)
    if keyword is None or value.tag not in _STRINGS:
        return f"{keyword or kind}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.value.decode(errors='replace'))}"


def _escaped(text: str) -> str:
    """Special characters escaped wherever they stand, spaces and carriage returns at both ends."""
    written = [
        "\\" + character if character in _ESCAPED else "\\00" if character == "\0" else character for character in text
    ]
    first = next((index for index, character in enumerate(written) if character not in (" ", "\r")), len(written))
    last = next((index for index in reversed(range(len(written))) if written[index] not in (" ", "\r")), -1)
    return "".join(character if first <= index <= last else "\\" + character for index, character in enumerate(written))


def _dotted(oid: bytes) -> str:
    numbers: list[int] = []
    value = 0
    for byte in oid:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    if not numbers:
        raise MalformedNameError("an empty object identifier")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _elements(data: bytes) -> Iterator[_Element]:
    pos = 0
    while pos < len(data):
        start, tag = pos, data[pos]
        if pos + 2 > len(data):
            raise MalformedNameError("an element is cut")
        length, pos = data[pos + 1], pos + 2
        if length & 0x80:
            size = length & 0x7F
            if size == 0 or size > 4 or pos + size > len(data):
                raise MalformedNameError("an element has no sensible length")
            length, pos = int.from_bytes(data[pos : pos + size], "big"), pos + size
        if pos + length > len(data):
            raise MalformedNameError("an element is cut")
        yield _Element(tag, data[pos : pos + length], data[start : pos + length])
        pos += length


_RULE: Final = re.compile(r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_BACK_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)|\$\{(\w+)\}", re.DOTALL)


def expanded(found: re.Match[str], replacement: str) -> str:
    """A replacement in Java's notation; a number without a group is taken as it is written."""

    def piece(part: re.Match[str]) -> str:
        escaped, digits, named = part.groups()
        if escaped is not None:
            return escaped
        if named is not None:
            return found[named] or ""
        groups = found.re.groups
        for length in range(len(digits), 0, -1):
            if int(digits[:length]) <= groups and (groups or digits[:length] == "0"):
                return (found[int(digits[:length])] or "") + digits[length:]
        return part[0]

    return _BACK_REFERENCE.sub(piece, replacement)


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None takes the name as it is."""
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        result = self.pattern.sub(lambda found: expanded(found, self.replacement), name)
        return {"L": result.lower, "U": result.upper}.get(self.case, lambda: result)()


class PrincipalMapper:
    """`ssl.principal.mapping.rules`: the first rule that matches the whole name says who it is."""

    def __init__(self, rules: str = "DEFAULT") -> None:
        """Raises ValueError for rules that cannot be read."""
        self._rules = list(_read_rules(rules.strip()))

    def name(self, distinguished: str) -> str | None:
        """The name of the principal, None if no rule has one."""
        for rule in self._rules:
            if (name := rule.apply(distinguished)) is not None:
                return name
        return None


def _read_rules(text: str) -> Iterator[_Rule]:
    pos = 0
    while pos < len(text):
        if text[pos] in ", \t\n":
            pos += 1
            continue
        found = _RULE.match(text, pos)
        if found is None or (found.end() < len(text) and text[found.end()] not in ", \t\n"):
            raise ValueError(
                f"ssl.principal.mapping.rules: {text[pos:]!r} is no RULE:pattern/replacement/[LU] or DEFAULT"
            )
        try:
            yield _Rule(None, "", "") if found[1] else _Rule(re.compile(found[2]), found[3], found[4])
        except re.error as error:
            raise ValueError(f"ssl.principal.mapping.rules: {found[2]!r} is no regular expression: {error}") from None
        pos = found.end()

"""Names of certificates and the rules that map them; the comparison with Java is in tests/compat/jvm."""

from __future__ import annotations

import pytest

from kavka.security.principal import MalformedNameError, PrincipalMapper, distinguished_name, subject_of


def der(tag: int, *parts: bytes) -> bytes:
    value = b"".join(parts)
    return bytes([tag, len(value)]) + value


def attribute(oid: str, text: bytes, tag: int = 0x0C) -> bytes:
    return der(0x31, der(0x30, der(0x06, bytes.fromhex(oid)), der(tag, text)))


CN, ORGANISATION, EMAIL = "550403", "55040a", "2a864886f70d010901"


def test_the_last_part_comes_first_and_special_characters_are_escaped() -> None:
    name = der(0x30, attribute(ORGANISATION, b"Kavka, s.r.o."), attribute(CN, b" a=b#c "))
    assert distinguished_name(name) == "CN=\\ a\\=b\\#c\\ ,O=Kavka\\, s.r.o."


def test_what_has_no_keyword_is_written_in_numbers() -> None:
    assert distinguished_name(der(0x30, attribute(EMAIL, b"a@b", 0x16))) == "1.2.840.113549.1.9.1=#1603614062"


def test_an_empty_name_is_empty() -> None:
    assert distinguished_name(der(0x30)) == ""


@pytest.mark.parametrize("data", [b"", b"\x30", b"\x30\x05", b"\x31\x00", b"\x30\x80", b"\x30\x03\x31\x01\x30"])
def test_bytes_that_are_no_name_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedNameError):
        distinguished_name(data)


@pytest.mark.parametrize("data", [b"", b"\x30\x00", b"\x30\x02\x30\x00", b"plain text", bytes(100)])
def test_bytes_that_are_no_certificate_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedNameError):
        subject_of(data)


def test_the_subject_is_found_in_a_certificate() -> None:
    subject = der(0x30, attribute(CN, b"alice"))
    other = der(0x30)
    fields = der(0x30, der(0xA0, b"\x02\x01\x02"), b"\x02\x01\x07", other, other, other, subject, other)
    assert distinguished_name(subject_of(der(0x30, fields, other))) == "CN=alice"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", "CN=Alice,OU=x"),
        ("RULE:^CN=(.*?),.*$/$1/", "Alice"),
        ("RULE:^CN=(.*?),.*$/$1/L", "alice"),
        ("RULE:^O=.*$/org/, RULE:^CN=(.*?),OU=(.*)$/$2.$1/U", "X.ALICE"),
        ("RULE:CN=Alice/never/,DEFAULT", "CN=Alice,OU=x"),
        ("RULE:CN=Alice/never/", None),
        ("RULE:^CN=(.*?),.*$/\\$$1$9/", "$Alice$9"),
    ],
)
def test_the_first_rule_that_matches_all_of_the_name_maps_it(rules: str, name: str | None) -> None:
    assert PrincipalMapper(rules).name("CN=Alice,OU=x") == name


@pytest.mark.parametrize("rules", ["RULE:x", "nonsense", "RULE:(/x/", "RULE:a/b/X", "DEFAULTX"])
def test_rules_that_cannot_be_read_are_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapper(rules)

"""`sasl.jaas.config`: what Java's syntax allows, and words that never show a secret."""

from __future__ import annotations

import pytest

from kavka.security.sasl.jaas import JaasError, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="alice" password="a b";', {"username": "alice", "password": "a b"}),
        (f"  {PLAIN}\n  Required\n username='alice'\n ;", {"username": "alice"}),
        (f"{PLAIN} required debug=true refresh = 5;", {"debug": "true", "refresh": "5"}),
        (rf'{PLAIN} required password="quo\"te\\s";', {"password": 'quo"te\\s'}),
        (f'{PLAIN} required password="a;b=c";', {"password": "a;b=c"}),
        (f"{PLAIN} optional;", {}),
    ],
)
def test_a_line_is_a_module_and_its_options(text: str, options: dict[str, str]) -> None:
    entry = parse_jaas(text)
    assert (entry.module, dict(entry.options)) == (PLAIN, options)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        f'{PLAIN} required password="s3cret"',
        f'{PLAIN} required password="s3cret;',
        f'{PLAIN} password="s3cret";',
        f'{PLAIN} required password "s3cret";',
        f'{PLAIN} required password="s3cret"; {PLAIN} required;',
        '= required password="s3cret";',
    ],
)
def test_what_cannot_be_read_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(JaasError) as error:
        parse_jaas(text)
    assert "s3cret" not in str(error.value)


def test_values_stay_out_of_what_is_printed() -> None:
    assert "s3cret" not in repr(parse_jaas(f'{PLAIN} required password="s3cret";'))

"""The names of certificates' subjects and the rules that map them, beside Java and Kafka."""

from __future__ import annotations

import random

from jvm.java_tools import Java

from kavka.security.principal import PrincipalMapper, distinguished_name
from scale import rounds

NAMES = rounds(full=20_000, ci=2_000)
OIDS = (
    "2.5.4.3", "2.5.4.6", "2.5.4.7", "2.5.4.8", "2.5.4.9", "2.5.4.10", "2.5.4.11", "0.9.2342.19200300.100.1.25",
    "0.9.2342.19200300.100.1.1", "1.2.840.113549.1.9.1", "2.5.4.5", "2.5.4.4", "1.3.6.1.4.1.99999.1",
)  # fmt: skip
TEXTS = (
    "kavka", "Kavka, s.r.o.", " lead", "trail ", "  ", "a=b", "a+b", '"q"', "#1", "a#b", "<x>", "a;b", "back\\slash",
    "Žluťoučký", "日本", "🐦", "new\nline", "x" * 300, "-._@/:?'()", "a\u00a0b", "\ttab", "ret\r", "\rlead",
)  # fmt: skip
TAGS = {0x0C: "utf-8", 0x13: "ascii", 0x16: "ascii", 0x1E: "utf-16-be"}
RULES = (
    "DEFAULT",
    "RULE:^CN=(.*?),.*$/$1/,DEFAULT",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
    "RULE:^CN=([^,]*).*/$1-$2-$12-x/",
    "RULE:CN=(.*)/\\$1 is $1/",
    "RULE:nothing/x/",
    "RULE:^(.*)$/$0!/L , DEFAULT",
    "",
)


def der(tag: int, value: bytes) -> bytes:
    if len(value) < 0x80:
        return bytes([tag, len(value)]) + value
    size = (len(value).bit_length() + 7) // 8
    return bytes([tag, 0x80 | size]) + len(value).to_bytes(size, "big") + value


def oid(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    out = b""
    for number in [40 * first + second, *rest]:
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.insert(0, number & 0x7F | 0x80)
        out += bytes(digits)
    return der(0x06, out)


def random_name(draw: random.Random) -> bytes:
    def pair() -> bytes:
        text = draw.choice(TEXTS)
        tag = draw.choice([one for one, code in TAGS.items() if code != "ascii" or text.isascii()])
        return der(0x30, oid(draw.choice(OIDS)) + der(tag, text.encode(TAGS[tag], "surrogatepass")))

    sets = [
        der(0x31, b"".join(sorted(pair() for _ in range(draw.choice((1, 1, 1, 2)))))) for _ in range(draw.randrange(5))
    ]
    return der(0x30, b"".join(sets))


def test_names_are_written_as_java_writes_them(java: Java) -> None:
    draw = random.Random(7)
    names = [random_name(draw) for _ in range(NAMES)]
    answers = java.run("kavka.compat.Names", [], stdin="".join(f"name\t{one.hex()}\n" for one in names).encode())
    wrong = [
        (name.hex(), theirs, distinguished_name(name))
        for name, answer in zip(names, answers.must_succeed().lines, strict=True)
        if (theirs := bytes.fromhex(answer.removeprefix("ok")).decode()) != distinguished_name(name)
    ]
    assert not wrong, f"{len(wrong)} of {len(names)} differ; the first: {wrong[0]}"


def test_rules_map_them_as_kafka_does(java: Java) -> None:
    draw = random.Random(8)
    names = [distinguished_name(random_name(draw)) for _ in range(300)]
    cases = [(rules, name) for name in names if not {"\n", "\t", "\r"} & set(name) for rules in RULES]
    lines = "".join(f"map\t{rules}\t{name}\n" for rules, name in cases)
    answers = java.run("kavka.compat.Names", [], stdin=lines.encode()).must_succeed().lines
    for (rules, name), answer in zip(cases, answers, strict=True):
        ours = PrincipalMapper(rules).name(name)
        theirs = None if answer.startswith("refused") else bytes.fromhex(answer.removeprefix("ok")).decode()
        assert ours == theirs, (rules, name, answer)

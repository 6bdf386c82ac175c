"""`--add-scram`: what it takes, and what it does not."""

from __future__ import annotations

from base64 import b64encode

import pytest

from kavka.controller.scram import parse_scram
from kavka.security.sasl.scram import Credential, Mechanism

SALT = b"salt" * 6


def test_a_password_becomes_a_credential() -> None:
    record = parse_scram('SCRAM-SHA-256=[name=alice,password="in, no"]'.replace(", ", "-"), lambda: SALT)
    made = Credential.of_password(Mechanism.SCRAM_SHA_256, "in-no", SALT)
    assert (record.name, record.mechanism, record.salt, record.iterations) == ("alice", 1, SALT, 4096)
    assert (record.stored_key, record.server_key) == (made.stored_key, made.server_key)


def test_iterations_salt_and_salted_password_may_be_given() -> None:
    salted, salt = b64encode(b"x" * 64).decode(), b64encode(SALT).decode()
    record = parse_scram(
        f"SCRAM-SHA-512=[name=bob,iterations=8192,salt={salt},saltedpassword={salted}]", lambda: b"other"
    )
    made = Credential.of_salted(Mechanism.SCRAM_SHA_512, b"x" * 64, SALT, 8192)
    assert (record.mechanism, record.salt, record.iterations) == (2, SALT, 8192)
    assert record.stored_key == made.stored_key


@pytest.mark.parametrize(
    "text",
    [
        "SCRAM-SHA-256",
        "SCRAM-SHA-1=[name=alice,password=s3cret]",
        "SCRAM-SHA-256=name=alice,password=s3cret",
        "SCRAM-SHA-256=[password=s3cret]",
        "SCRAM-SHA-256=[name=alice]",
        "SCRAM-SHA-256=[name=alice,password=s3cret,iterations=4095]",
        "SCRAM-SHA-256=[name=alice,password=s3cret,iterations=16385]",
        "SCRAM-SHA-256=[name=alice,password=s3cret,iterations=x]",
        "SCRAM-SHA-256=[name=alice,password=s3cret,salt=?]",
        "SCRAM-SHA-256=[name=alice,saltedpassword=czNjcmV0]",
        "SCRAM-SHA-256=[name=alice,password=s3cret,colour=red]",
    ],
)
def test_what_cannot_be_read_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError) as error:
        parse_scram(text, lambda: SALT)
    assert "s3cret" not in str(error.value)

"""The console's certificate follows its file, and one that nobody would take never gets live."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

import pytest

from kavka.console.tls import ServedTls
from kavka.testing.authority import Authority


def shown(served: ServedTls) -> bytes | None:
    """The certificate that a browser is shown."""
    browser = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    browser.check_hostname, browser.verify_mode = False, ssl.CERT_NONE
    out, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours, theirs = served.context.wrap_bio(out, back, server_side=True), browser.wrap_bio(back, out)
    for side in (theirs, ours, theirs):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return theirs.getpeercert(binary_form=True)


def test_what_nobody_would_take_never_gets_live(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority, file = Authority(), tmp_path / "console.pem"
    first, second = authority.issue("console"), authority.issue("console")
    file.write_text(first.pem)
    served = ServedTls({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(file)})
    assert shown(served) == ssl.PEM_cert_to_DER_cert(first.certificate_pem)
    bad = [
        "this is no certificate",
        authority.issue("console", days=-1).pem,
        second.key_pem() + first.certificate_pem,
    ]
    with caplog.at_level(logging.ERROR):
        for count, text in enumerate(bad, 1):
            file.write_text(text)
            served.look()
            assert len(caplog.messages) == count
            assert shown(served) == ssl.PEM_cert_to_DER_cert(first.certificate_pem)
    file.write_text(second.pem)
    served.look()
    assert shown(served) == ssl.PEM_cert_to_DER_cert(second.certificate_pem)

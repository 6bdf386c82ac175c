"""sslyze's opinion of a TLS listener. It needs older libraries than we do, so it lives in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from every_listener import Served, serving

HOME = Path(__file__).parents[2] / ".cache" / "sslyze"
INSTALL = "python -m venv .cache/sslyze && .cache/sslyze/bin/pip install sslyze"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("secured"), {"ssl.client.auth": "none"}) as node:
        yield node


@pytest.fixture(scope="module")
def scan(served: Served, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    program = Path(os.environ.get("KAVKA_SSLYZE", HOME / "bin" / "sslyze"))
    if not program.exists():
        pytest.skip(f"no sslyze here: {INSTALL}")
    report = tmp_path_factory.mktemp("sslyze") / "report.json"
    command = [
        str(program), f"localhost:{served.ports['SSL']}", f"--json_out={report}", "--mozilla_config=disable",
        "--sslv2", "--sslv3", "--tlsv1", "--tlsv1_1", "--tlsv1_2", "--tlsv1_3", "--compression", "--reneg",
        "--heartbleed", "--openssl_ccs", "--robot", "--fallback", "--elliptic_curves",
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=240, capture_output=True)
    (result,) = json.loads(report.read_text())["server_scan_results"]
    assert result["scan_status"] == "COMPLETED"
    found: dict[str, Any] = {name: one["result"] for name, one in result["scan_result"].items() if one["result"]}
    return found


def suites(scan: dict[str, Any], version: str) -> set[str]:
    accepted = scan[f"{version}_cipher_suites"]["accepted_cipher_suites"]
    return {one["cipher_suite"]["name"] for one in accepted}


@pytest.mark.parametrize("version", ["ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1"])
def test_old_versions_are_not_spoken(scan: dict[str, Any], version: str) -> None:
    assert suites(scan, version) == set()


def test_the_suites_are_forward_secret_and_authenticated(scan: dict[str, Any]) -> None:
    assert suites(scan, "tls_1_3") == {
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
    }
    older = suites(scan, "tls_1_2")
    assert older
    assert all(name.startswith("TLS_ECDHE_") and ("GCM" in name or "CHACHA20" in name) for name in older)


def test_there_is_no_compression_and_no_renegotiation(scan: dict[str, Any]) -> None:
    assert scan["tls_compression"]["supports_compression"] is False
    assert scan["session_renegotiation"]["is_vulnerable_to_client_renegotiation_dos"] is False


def test_no_known_fault_is_found(scan: dict[str, Any]) -> None:
    assert scan["heartbleed"]["is_vulnerable_to_heartbleed"] is False
    assert scan["openssl_ccs_injection"]["is_vulnerable_to_ccs_injection"] is False
    assert scan["robot"]["robot_result"].startswith("NOT_VULNERABLE")
    assert scan["tls_fallback_scsv"]["supports_fallback_scsv"] is True

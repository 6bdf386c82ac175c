"""Unpacks Debian's Kerberos server and librdkafka into an ignored folder, and builds gssapi and confluent-kafka for it.

The tests of GSSAPI use them where they are there: confluent-kafka as it is on PyPI has no Kerberos. Nobody needs to be
root; gssapi goes into the environment that this runs in, and nothing else is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = (
    "krb5-kdc",
    "krb5-admin-server",
    "krb5-user",
    "libkrb5-dev",
    "kcat",
    "librdkafka-dev",
    "libsasl2-modules-gssapi-mit",
)
PROGRAMS = ("apt-get", "dpkg", "cc")
LIBRARIES = "usr/lib/x86_64-linux-gnu"
HEADER = "usr/include/librdkafka/rdkafka.h"


class FetchError(Exception):
    """What is missing, in one line."""


def folder() -> Path:
    """Where everything is, whether or not it is there yet."""
    given = os.environ.get("KAVKA_KRB5_ROOT")
    return Path(given) if given else ROOT / ".cache" / "krb5"


def unpack(into: Path) -> None:
    """Fetch the packages with what they need, and unpack them."""
    debs = into.with_name(f"{into.name}-debs")
    debs.mkdir(parents=True, exist_ok=True)
    asked = ["install", "--print-uris", "--yes", "--reinstall", "--no-install-recommends", *PACKAGES]
    said = _run(["apt-get", "-qq", "-o", "Debug::NoLocking=1", *asked], debs)
    files = [line.split()[1] for line in said.splitlines() if line.startswith("'")]
    names = sorted({unquote(file).partition("_")[0] for file in files})
    _run(["apt-get", "-qq", "download", *names], debs)
    shutil.rmtree(into, ignore_errors=True)
    for deb in sorted(debs.glob("*.deb")):
        _run(["dpkg", "-x", str(deb), str(into)], debs)
    shutil.rmtree(debs)


def build_gssapi(root: Path) -> None:
    """Build the library of Python against the headers that were unpacked; it runs with the system's own libraries."""
    libraries = root / LIBRARIES
    environment = {
        "GSSAPI_COMPILER_ARGS": f"-I{root / 'usr/include'} -DHAS_GSSAPI_EXT_H",
        "GSSAPI_LINKER_ARGS": f"-L{libraries} -lgssapi_krb5",
        "GSSAPI_MAIN_LIB": str(libraries / "libgssapi_krb5.so.2"),
    }
    _install(environment, "--no-binary", "gssapi", "gssapi>=1.8")


def build_confluent(root: Path) -> None:
    """Build the confluent-kafka that goes with the librdkafka that was unpacked, beside it."""
    version = re.search(r"RD_KAFKA_VERSION\s+0x(..)(..)(..)", (root / HEADER).read_text(encoding="utf-8"))
    if version is None:
        raise FetchError(f"{HEADER} names no version")
    release = ".".join(str(int(part, 16)) for part in version.groups())
    environment = {"C_INCLUDE_PATH": str(root / "usr/include"), "LIBRARY_PATH": str(root / LIBRARIES)}
    where = ["--no-deps", "--upgrade", "--target", str(root / "python")]
    _install(environment, *where, "--no-binary", "confluent-kafka", f"confluent-kafka=={release}")


def _install(environment: dict[str, str], *what: str) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "install", *what], ROOT, environment)


def _run(command: list[str], where: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=where, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise FetchError(f"{' '.join(command[:4])}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def main() -> int:
    """Unpack and build what is not there."""
    lacking = [program for program in PROGRAMS if shutil.which(program) is None]
    if lacking:
        sys.stderr.write(f"not on this machine: {', '.join(lacking)}\n")
        return 1
    root = folder()
    try:
        if not (root / "usr" / "sbin" / "krb5kdc").exists():
            unpack(root)
        build_gssapi(root)
        build_confluent(root)
    except FetchError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

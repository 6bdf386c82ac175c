"""A real Kerberos server on loopback, started by tests without root.

It runs what Debian's krb5-kdc and krb5-admin-server have: as installed, or as `make kerberos` unpacks it, under .cache
or where KAVKA_KRB5_ROOT says.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kavka.testing.local import free_ports

REALM = "KAVKA.TEST"
UNPACKED = Path(__file__).parents[1] / ".cache" / "krb5"
ROOT = os.environ.get("KAVKA_KRB5_ROOT") or (str(UNPACKED) if UNPACKED.is_dir() else "")
LIBRARIES = f"{ROOT}/usr/lib/x86_64-linux-gnu"
TOOLS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")


def tool(name: str) -> str | None:
    """Where one of the programs is, None if it is not there."""
    folders = [f"{ROOT}/usr/sbin", f"{ROOT}/usr/bin"] if ROOT else [os.environ.get("PATH", ""), "/usr/sbin", "/sbin"]
    return shutil.which(name, path=":".join(folders))


def missing() -> str | None:
    """What to install, None if everything is there."""
    try:
        import gssapi
    except ImportError as error:
        return f"needs make kerberos, or pip install 'kavka[gssapi]', which needs libkrb5-dev: {error}"
    assert gssapi
    lacking = [name for name in TOOLS if tool(name) is None]
    if lacking:
        packages = "krb5-kdc krb5-admin-server krb5-user"
        return f"needs make kerberos, or apt install {packages}; no {lacking[0]} here"
    return None


@dataclass
class Kdc:
    """A running server with its own realm."""

    folder: Path
    port: int
    environment: dict[str, str] = field(default_factory=dict)
    """What programs need to find it."""

    @property
    def for_programs(self) -> dict[str, str]:
        """All of the environment of programs that were unpacked with it."""
        return {**os.environ, **self.environment, **_libraries()}

    def run(self, name: str, *arguments: str, stdin: str = "") -> str:
        """Run one of Kerberos' programs."""
        path = tool(name)
        assert path is not None
        done = subprocess.run(
            [path, *arguments],
            env=self.for_programs,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def add(self, principal: str) -> Path:
        """A principal with a random key: its keytab."""
        path = self.folder / f"{principal.replace('/', '_')}.keytab"
        self.run("kadmin.local", "-q", f"addprinc -randkey {principal}")
        self.run("kadmin.local", "-q", f"ktadd -k {path} {principal}")
        return path

    def ticket(self, principal: str, keytab: Path) -> dict[str, str]:
        """Log a principal in: what its programs' environment needs."""
        cache = self.folder / f"{principal.replace('/', '_')}.cache"
        self.run("kinit", "-k", "-t", str(keytab), "-c", f"FILE:{cache}", principal)
        return {**self.environment, "KRB5CCNAME": f"FILE:{cache}"}


def _libraries() -> dict[str, str]:
    if not ROOT:
        return {}
    path = f"{ROOT}/usr/bin:{ROOT}/usr/sbin:{os.environ.get('PATH', '')}"
    of_python = f"{ROOT}/python:{os.environ.get('PYTHONPATH', '')}"
    return {"LD_LIBRARY_PATH": LIBRARIES, "SASL_PATH": f"{LIBRARIES}/sasl2", "PATH": path, "PYTHONPATH": of_python}


@contextmanager
def kdc(folder: Path) -> Iterator[Kdc]:
    """A server in a directory, until the block ends."""
    port = free_ports(1)[0]
    client, server = folder / "krb5.conf", folder / "kdc.conf"
    plugins = f" plugin_base_dir = {LIBRARIES}/krb5/plugins\n" if ROOT else ""
    client.write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n rdns = false\n"
        f" dns_canonicalize_hostname = false\n udp_preference_limit = 1\n{plugins}"
        f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
        f"[domain_realm]\n localhost = {REALM}\n 127.0.0.1 = {REALM}\n"
    )
    modules = f"[dbmodules]\n db_module_dir = {LIBRARIES}/krb5/plugins/kdb\n" if ROOT else ""
    server.write_text(
        f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
        f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n"
        f"  acl_file = {folder}/acl\n  supported_enctypes = aes256-cts:normal\n }}\n{modules}"
    )
    environment = {"KRB5_CONFIG": str(client), "KRB5_KDC_PROFILE": str(server), "KRB5RCACHENAME": "none:"}
    running = Kdc(folder, port, environment)
    running.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
    path = tool("krb5kdc")
    assert path is not None
    process = subprocess.Popen(
        [path, "-n", "-P", str(folder / "kdc.pid")],
        env={**os.environ, **environment, **_libraries()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port, process)
        yield running
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError(f"krb5kdc ended with {process.returncode}")

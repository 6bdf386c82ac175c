"""Fetches Apache Kafka's own jars, pinned in pom.xml, through Maven into an ignored folder of the working tree.

Only the compatibility tests use them. Where Maven gets them from is Maven's configuration, not ours.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
POM = HERE / "pom.xml"
STREAMS_POM = HERE / "streams.xml"
REGISTRY_POM = HERE / "registry.xml"
LOGGING = HERE / "log4j2.properties"
MAVEN_TIMEOUT_S = 900
TEST_JARS = ("kafka-storage", "kafka-clients")
STREAMS_TEST_JARS = ("kafka-streams", "kafka-clients")
SERIALIZERS = "org.apache.pinot:pinot-confluent-avro:1.5.0:jar:shaded"
GET = "org.apache.maven.plugins:maven-dependency-plugin:2.8:get"
"""The last version that takes a jar without looking at what its pom names."""


class FetchError(Exception):
    """What is missing, in one line."""


def kafka_version() -> str:
    """The Kafka version pinned in pom.xml."""
    version = ElementTree.parse(POM).getroot().find("{*}properties/{*}kafka.version")
    if version is None or not version.text:
        raise FetchError(f"{POM.name} names no kafka.version")
    return version.text


def folder() -> Path:
    """The folder that holds the jars, whether or not it is filled yet."""
    given = os.environ.get("KAVKA_KAFKA_JARS")
    return Path(given) if given else ROOT / ".cache" / "kafka" / kafka_version()


def test_folder() -> Path:
    """The folder of Kafka's test jars, which have LocalTieredStorage; apart, so that no other class path has them."""
    return folder() / "test"


def streams_folder() -> Path:
    """The folder of Kafka Streams and Kafka Connect, with the tests of the former."""
    jars = folder()
    return jars.with_name(f"{jars.name}-streams")


def registry_folder() -> Path:
    """The folder of Confluent's client of the schema registry and its serializers of Avro."""
    jars = folder()
    return jars.with_name(f"{jars.name}-registry")


def is_complete(jars: Path, pom: Path = POM) -> bool:
    """Whether the folder was filled from the pom as it is now."""
    if os.environ.get("KAVKA_KAFKA_JARS"):
        return any(jars.glob("kafka-clients-*.jar"))
    marker = jars / "pom.xml"
    return marker.is_file() and marker.read_bytes() == pom.read_bytes() and (jars / "test").is_dir()


def missing_programs() -> list[str]:
    """The programs a compatibility run needs and this machine lacks."""
    return [program for program in ("java", "javac", "mvn") if shutil.which(program) is None]


def fetch(jars: Path, pom: Path = POM, test_jars: tuple[str, ...] = TEST_JARS, alone: tuple[str, ...] = ()) -> None:
    """Fill the folder, whole or not at all."""
    missing = missing_programs()
    if missing:
        raise FetchError(f"not on this machine: {', '.join(missing)} (a JDK 17 or newer and Maven are needed)")
    partial = jars.with_name(jars.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    (partial / "test").mkdir()
    _maven(pom, "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={partial}")
    for artifact in alone:
        _maven(pom, GET, f"-Dartifact={artifact}", "-Dtransitive=false", f"-Ddest={partial}/")
    for name in test_jars:
        artifact = f"org.apache.kafka:{name}:{kafka_version()}:jar:test"
        _maven(pom, "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={partial / 'test'}")
    shutil.copyfile(pom, partial / "pom.xml")
    shutil.rmtree(jars, ignore_errors=True)
    partial.rename(jars)


def _maven(pom: Path, *arguments: str) -> None:
    command = ["mvn", "-q", "-B", "-f", str(pom), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise FetchError(f"Maven was still busy after {MAVEN_TIMEOUT_S} s") from None
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise FetchError(f"Maven failed: {said[0] if said else 'no reason given'}")


def main() -> int:
    """Make sure the jars are there; say where."""
    try:
        jars = folder()
        if not is_complete(jars):
            sys.stderr.write(f"fetching Apache Kafka {kafka_version()} into {jars}\n")
            fetch(jars)
        if not is_complete(streams_folder(), STREAMS_POM):
            sys.stderr.write(f"fetching Kafka Streams and Connect {kafka_version()} into {streams_folder()}\n")
            fetch(streams_folder(), STREAMS_POM, STREAMS_TEST_JARS)
        if not is_complete(registry_folder(), REGISTRY_POM):
            sys.stderr.write(f"fetching Confluent's registry client and serializers into {registry_folder()}\n")
            fetch(registry_folder(), REGISTRY_POM, (), (SERIALIZERS,))
    except FetchError as reason:
        sys.stderr.write(f"Apache Kafka's jars cannot be fetched: {reason}\n")
        return 1
    sys.stdout.write(f"{jars}: {len(list(jars.glob('*.jar')))} jars\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

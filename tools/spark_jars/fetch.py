"""Fetches the jars of Spark's own Kafka connector and Avro functions, pinned in pom.xml, into an ignored folder.

Only the compatibility tests and the side-by-side benchmark use them. That of the Protobuf functions is in protobuf.xml.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
POM: Final = HERE / "pom.xml"
PROTOBUF: Final = HERE / "protobuf.xml"
_PLACES: Final = {
    POM: ("KAVKA_SPARK_JARS", "spark-connector"),
    PROTOBUF: ("KAVKA_SPARK_PROTOBUF_JARS", "spark-protobuf"),
}
"""By pom: the variable that names a folder with the jars, and the folder that they are fetched into."""
MAVEN_TIMEOUT_S: Final = 900


class FetchError(Exception):
    """What is missing, in one line."""


def jars(pom: Path = POM) -> list[Path]:
    """The jars of a pom, fetched if they are not there."""
    variable, name = _PLACES[pom]
    given = os.environ.get(variable)
    target = Path(given) if given else HERE.parent.parent / ".cache" / name
    marker = target / pom.name
    if not given and not (marker.is_file() and marker.read_bytes() == pom.read_bytes()):
        _fetch(pom, target)
    return sorted(target.glob("*.jar"))


def _fetch(pom: Path, target: Path) -> None:
    if shutil.which("mvn") is None:
        raise FetchError("not on this machine: mvn")
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    try:
        done = subprocess.run(
            [*command, f"-DoutputDirectory={partial}"],
            capture_output=True,
            text=True,
            timeout=MAVEN_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FetchError(f"Maven was still busy after {MAVEN_TIMEOUT_S} s") from None
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise FetchError(f"Maven failed: {said[0] if said else 'no reason given'}")
    shutil.copyfile(pom, partial / pom.name)
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)


if __name__ == "__main__":
    sys.stdout.write(",".join(map(str, jars())) + "\n")

"""`kavka profile`: names for clusters, kept in a file of the user's."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from kavka.cli.options import OutputOption, group
from kavka.cli.output import CommandError, Output, note, print_json, print_rows, write_line

app = group("Give clusters names, and say which one commands talk to.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The profile.")]


@dataclass(frozen=True, slots=True)
class Profiles:
    """The addresses of clusters by name, and the name that counts unless another is given."""

    current: str | None = None
    bootstraps: Mapping[str, str] = field(default_factory=dict)

    def bootstrap(self, name: str | None) -> str | None:
        """Where the cluster of a name is, or of the current one; raises CommandError."""
        wanted = name if name is not None else self.current
        if wanted is None:
            return None
        if wanted not in self.bootstraps:
            known = ", ".join(sorted(self.bootstraps)) or "none"
            raise CommandError(f"there is no profile {wanted!r} in {path()}; there are: {known}")
        return self.bootstraps[wanted]


def path() -> Path:
    """Where profiles are kept."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "kavka" / "profiles.toml"


def load() -> Profiles:
    """The profiles of this user; raises CommandError."""
    file = path()
    if not file.exists():
        return Profiles()
    import tomllib  # most users have no such file

    try:
        read = tomllib.loads(file.read_text(encoding="utf-8"))
        bootstraps = {name: str(each["bootstrap"]) for name, each in read.get("profiles", {}).items()}
        return Profiles(read.get("current"), bootstraps)
    except (tomllib.TOMLDecodeError, KeyError, AttributeError, TypeError) as error:
        raise CommandError(f"{file}: {error}") from None


def save(profiles: Profiles) -> None:
    """Keep profiles, all at once."""
    lines = [f"current = {json.dumps(profiles.current)}\n"] if profiles.current is not None else []
    for name, bootstrap in sorted(profiles.bootstraps.items()):
        lines.append(f"\n[profiles.{json.dumps(name)}]\nbootstrap = {json.dumps(bootstrap)}\n")
    file = path()
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f"{file.name}.tmp")
    temporary.write_text("".join(lines), encoding="utf-8")
    temporary.replace(file)


@app.command("set")
def set_profile(
    name: Name,
    bootstrap: Annotated[str, typer.Option("--bootstrap", "-b", metavar="HOST:PORT", help="Where the cluster is.")],
) -> None:
    """Give a cluster a name; the first one is used at once.

    Example: `kavka profile set staging --bootstrap staging1:9092,staging2:9092`
    """
    profiles = load()
    save(Profiles(profiles.current or name, {**profiles.bootstraps, name: bootstrap}))
    note(f"profile {name} is kept in {path()}")


@app.command("use")
def use_profile(name: Name) -> None:
    """Have commands talk to this cluster unless they are told otherwise.

    Example: `kavka profile use staging`
    """
    profiles = load()
    write_line(f"commands talk to {profiles.bootstrap(name)}")
    save(replace(profiles, current=name))


@app.command("list")
def list_profiles(output: OutputOption = Output.TABLE) -> None:
    """Show the profiles and which is in use.

    Example: `kavka profile list`
    """
    profiles = load()
    rows = [
        {"profile": name, "bootstrap": bootstrap, "current": name == profiles.current}
        for name, bootstrap in sorted(profiles.bootstraps.items())
    ]
    print_rows(output, ["profile", "bootstrap", "current"], rows)


@app.command("delete")
def delete_profile(name: Name, output: OutputOption = Output.TABLE) -> None:
    """Forget a profile.

    Example: `kavka profile delete staging`
    """
    profiles = load()
    profiles.bootstrap(name)
    left = {known: bootstrap for known, bootstrap in profiles.bootstraps.items() if known != name}
    save(Profiles(None if profiles.current == name else profiles.current, left))
    print_json({"deleted": name}) if output is Output.JSON else write_line(f"profile {name} deleted")

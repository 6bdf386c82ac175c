"""`kavka profile`: names for clusters, kept in a file of the user's."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from kavka.cli.options import OutputOption, group
from kavka.cli.output import CommandError, Output, note, print_json, print_rows, tell, write_line

app = group("Give clusters names, and say which one commands talk to.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The profile.")]


class Profile(NamedTuple):
    """A cluster: where it is, and the client.properties that says how it is secured."""

    bootstrap: str
    config: str | None = None
    registry: str | None = None
    """The URL of its schema registry."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """Clusters by name, and the name that counts unless another is given."""

    current: str | None = None
    clusters: Mapping[str, Profile] = field(default_factory=dict)

    def find(self, name: str | None) -> Profile | None:
        """The cluster of a name, or the current one; None if there is no such; raises CommandError."""
        wanted = name if name is not None else self.current
        if wanted is None:
            return None
        if wanted not in self.clusters:
            known = ", ".join(sorted(self.clusters)) or "none"
            raise CommandError(f"there is no profile {wanted!r} in {path()}; there are: {known}")
        return self.clusters[wanted]


def path() -> Path:
    """Where profiles are kept."""
    config_home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(config_home) / "kavka" / "profiles.toml"


def load() -> Profiles:
    """The profiles of this user; raises CommandError."""
    file = path()
    if not file.exists():
        return Profiles()
    import tomllib  # most users have no such file

    try:
        read = tomllib.loads(file.read_text(encoding="utf-8"))
        clusters = {
            name: Profile(str(each["bootstrap"]), each.get("config"), each.get("registry"))
            for name, each in read.get("profiles", {}).items()
        }
        return Profiles(read.get("current"), clusters)
    except (tomllib.TOMLDecodeError, KeyError, AttributeError, TypeError) as error:
        raise CommandError(f"{file}: {error}") from None


def save(profiles: Profiles) -> None:
    """Keep profiles, all at once."""
    lines = [f"current = {json.dumps(profiles.current)}\n"] if profiles.current is not None else []
    for name, cluster in sorted(profiles.clusters.items()):
        lines.append(f"\n[profiles.{json.dumps(name)}]\nbootstrap = {json.dumps(cluster.bootstrap)}\n")
        if cluster.config is not None:
            lines.append(f"config = {json.dumps(cluster.config)}\n")
        if cluster.registry is not None:
            lines.append(f"registry = {json.dumps(cluster.registry)}\n")
    file = path()
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f"{file.name}.tmp")
    temporary.write_text("".join(lines), encoding="utf-8")
    temporary.replace(file)


@app.command("set")
def set_profile(
    name: Name,
    bootstrap: Annotated[str, typer.Option("--bootstrap", "-b", metavar="HOST:PORT", help="Where the cluster is.")],
    client_config: Annotated[
        Path | None,
        typer.Option("--client-config", metavar="FILE", help="A client.properties: how connections are secured."),
    ] = None,
    registry: Annotated[
        str | None, typer.Option("--registry", metavar="URL", help="Its schema registry, http://HOST:PORT.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give a cluster a name; the first one is used at once.

    Example: `kavka profile set staging --bootstrap staging1:9092,staging2:9092`
    """
    from kavka.client.dial import parse_bootstrap

    parse_bootstrap(bootstrap)
    profiles = load()
    made = Profile(bootstrap, str(client_config.absolute()) if client_config is not None else None, registry)
    save(Profiles(profiles.current or name, {**profiles.clusters, name: made}))
    if output is Output.JSON:
        print_json({"profile": name, "bootstrap": bootstrap, "file": str(path())})
    else:
        note(f"profile {name} is kept in {path()}")


@app.command("use")
def use_profile(name: Name, output: OutputOption = Output.TABLE) -> None:
    """Have commands talk to this cluster unless they are told otherwise.

    Example: `kavka profile use staging`
    """
    profiles = load()
    chosen = profiles.find(name)
    assert chosen is not None
    tell(output, f"commands talk to {chosen.bootstrap}", profile=name, bootstrap=chosen.bootstrap)
    save(replace(profiles, current=name))


@app.command("list")
def list_profiles(output: OutputOption = Output.TABLE) -> None:
    """Show the profiles and which is in use.

    Example: `kavka profile list`
    """
    profiles = load()
    rows = [
        {"profile": name, "bootstrap": cluster.bootstrap, "current": name == profiles.current}
        for name, cluster in sorted(profiles.clusters.items())
    ]
    print_rows(output, ["profile", "bootstrap", "current"], rows)


@app.command("delete")
def delete_profile(name: Name, output: OutputOption = Output.TABLE) -> None:
    """Forget a profile.

    Example: `kavka profile delete staging`
    """
    profiles = load()
    profiles.find(name)
    left = {known: cluster for known, cluster in profiles.clusters.items() if known != name}
    save(Profiles(None if profiles.current == name else profiles.current, left))
    print_json({"deleted": name}) if output is Output.JSON else write_line(f"profile {name} deleted")

"""Write the documentation pages that are made from code: `python tools/gen_docs.py [--check | --misnamed]`.

A page is one function in PAGES that answers its text. `--check` changes nothing and fails if a page is out of date;
`--misnamed` lists the settings that the pages call effective although no code acts on them, and the reverse.
"""

from __future__ import annotations

import ast
import runpy
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
if not any((Path(entry) / "kavka").is_dir() for entry in sys.path):
    sys.path.insert(0, str(ROOT / "src"))

from kavka.broker.handlers import HANDLERS, HOT  # noqa: E402
from kavka.model.settings import (  # noqa: E402
    BROKER,
    TOPIC,
    Setting,
    Update,
    broker,
    coordinators,
    group,
    replication,
    security,
    tiered,
    topic,
)
from kavka.model.settings.rules import AT_START, OF_A_LISTENER, OF_A_LISTENER_PREFIX  # noqa: E402
from kavka.protocol.registry import API, OURS, Api  # noqa: E402

LONG_MAX: Final = (1 << 63) - 1
UNITS: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
TIMES: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


OTHER_NAMES: Final = ("broker.id",)
"""Keys that stand for another one, which the tables see to by themselves."""


IN_FORCE: Final = {
    Update.READ_ONLY: "at start",
    Update.PER_BROKER: "live, for one broker",
    Update.CLUSTER: "live, for one broker or all",
}
"""When a value counts: what can change at all is read where it is used, as `frozen` finds out."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |\n" for line in lines)


def configuration() -> str:
    """docs/configuration.md: every key, its default, what it allows and what it does."""
    honoured = {name: setting for name, setting in BROKER.items() if setting.honoured}
    topics = by_name(setting for setting in TOPIC.values() if setting.honoured)
    groups = by_name(setting for setting in group.SETTINGS.values() if setting.honoured)
    return f"""# Configuration

<!-- Written by tools/gen_docs.py from kavka.model.settings; change it there. -->

Kavka takes Kafka's own keys. A node reads them from four places, each stronger than the one before it:
the defaults below, the file given by `--config` (Java's properties syntax), environment variables (`log.segment.bytes`
is `KAVKA_LOG_SEGMENT_BYTES`), and `--override key=value`. A key that is none is a warning, a value that is not allowed
is an error that names the key.

Without a file a node serves this machine alone: `listeners` is `PLAINTEXT://127.0.0.1:9092` and `log.dirs` is
`kavka-data`. A node that is given no `controller.quorum.*` key is standalone: it is its own cluster, node 1 unless
`node.id` says otherwise, and formats an empty data directory by itself.

## Topics

Set when a topic is created, or changed while it is in use (`kavka configs`). A topic that has no value of its own
follows the broker's key; of several, the first that is set counts.

{table(("key", "type", "default", "allowed", "follows", "what it does"), map(topic_row, topics))}
## Groups

Set for one group while it is in use (`kavka configs`); a group that has no value of its own follows the node's key.
The node's `group.consumer.min.*` and `group.consumer.max.*` keys bound what may be set.

{table(("key", "type", "default", "allowed", "follows", "what it does"), map(topic_row, groups))}
## Nodes

"In force" says when a value counts: one that is set at the start, until the node is started again; or one that is set
in a running cluster (`kavka configs alter broker`), at once, for one broker or for all of them. A change that
contradicts other settings is refused as a whole.

{table(("key", "type", "default", "allowed", "in force", "what it does"), map(broker_row, by_name(honoured.values())))}
## Accepted without effect

These keys of Kafka are understood, checked and reported by DescribeConfigs, but this version does not act on them.
Setting one is a warning in the node's log, at the start and while it runs.

{idle_keys()}"""


def idle_keys() -> str:
    """The keys without effect, by subject."""
    parts = []
    for title, module in (
        ("Topic", topic),
        ("Node", broker),
        ("Replication", replication),
        ("Coordinators", coordinators),
        ("Group", group),
        ("Security", security),
        ("Tiered storage", tiered),
    ):
        idle = by_name(setting for setting in module.SETTINGS.values() if not setting.honoured)
        rows = ([f"`{setting.name}`", setting.kind.name, default_of(setting)] for setting in idle)
        parts.append(f"### {title}\n\n{table(('key', 'type', 'default'), rows)}")
    return "\n".join(parts)


def by_name(settings: Iterable[Setting[Any]]) -> list[Setting[Any]]:
    """Settings in the order of their names."""
    return sorted(settings, key=lambda setting: setting.name)


def topic_row(setting: Setting[Any]) -> list[str]:
    """One key of a topic or a group."""
    follows = ", ".join(f"`{synonym.setting.name}`" for synonym in setting.synonyms)
    return [f"`{setting.name}`", setting.kind.name, default_of(setting), setting.allowed, follows, setting.doc]


def broker_row(setting: Setting[Any]) -> list[str]:
    """One broker key."""
    in_force = IN_FORCE[Update.READ_ONLY if setting in AT_START else setting.update]
    if setting in OF_A_LISTENER:
        in_force = f"{in_force}, with `{OF_A_LISTENER_PREFIX}` before it"
    return [f"`{setting.name}`", setting.kind.name, default_of(setting), setting.allowed, in_force, setting.doc]


def default_of(setting: Setting[Any]) -> str:
    """A default as a person reads it: with its unit, if it is a round number of one."""
    value = setting.default
    if value is None or value in ("", ()):
        return ""
    if value == LONG_MAX:
        return "no limit"
    text = f"`{setting.text(value)}`"
    if isinstance(value, int) and not isinstance(value, bool):
        units: Sequence[tuple[int, str]] = UNITS if "bytes" in setting.name or setting.name.endswith("size") else ()
        units = TIMES if setting.name.endswith(".ms") else units
        for size, unit in units:
            if value >= size and value % size == 0:
                return f"{text} ({value // size} {unit})"
    return text


def compatibility() -> str:
    """docs/compatibility.md: which APIs of Kafka this version serves."""
    kafkas = [api for key, api in API.items() if key not in OURS]
    served = [api for api in kafkas if api.stem in {*HANDLERS, *HOT}]
    missing = [api for api in kafkas if api not in served]
    own = ", ".join(f"{API[key].name} ({key})" for key in sorted(OURS))
    rows = ([str(api.key), api.name, versions(api), ours(api), note(api.stem)] for api in served)
    absent = ([str(api.key), api.name, versions(api), ", ".join(sorted(api.listeners))] for api in missing)
    return f"""# Compatibility

<!-- Written by tools/gen_docs.py from kavka.protocol.registry, kavka.broker.handlers and the accepted differences of
tests/compat/jvm/differential; change it there. -->

Kavka speaks the protocol of Apache Kafka 4.3. It can encode and decode all {len(kafkas)} APIs of it, and serves
{len(served)} of them; ApiVersions names only those, so that a client knows. Nodes of one cluster also ask each other
for what Kafka does not have: {own}.

## Served

{table(("key", "API", "versions in Kafka 4.3", "versions here", "behaviour"), rows)}
## Not served yet

{table(("key", "API", "versions in Kafka 4.3", "listeners in Kafka"), absent)}
## Differences

`make compat-jvm` sends the same requests to Apache Kafka and to Kavka and compares the answers. These are the places
where they differ, and why.

{table(("difference", "requests it shows in"), differences())}"""


def differences() -> list[list[str]]:
    """The accepted differences from Apache Kafka: each reason with the cases of the comparison that show it."""
    found: dict[str, list[str]] = {}
    for row in runpy.run_path(str(ROOT / "tests" / "compat" / "jvm" / "differential" / "accepted.py"))["ACCEPTED"]:
        cases = found.setdefault(row.reason, [])
        if row.cases not in cases:
            cases.append(row.cases)
    return [[reason, "; ".join(cases)] for reason, cases in found.items()]


def versions(api: Api) -> str:
    """The versions Kafka has, with the one that is not stable in brackets."""
    if not api.latest_version_unstable:
        return span(api.min_version, api.max_version)
    return f"{span(api.min_version, api.max_version - 1)} ({api.max_version} is not stable)"


def ours(api: Api) -> str:
    """The versions that work here."""
    shown = span(api.min_version, api.max_version - api.latest_version_unstable)
    return f"{shown}, listed from 0 as by Kafka" if api.name == "Produce" else shown


def span(first: int, last: int) -> str:
    """A range of versions."""
    return f"{first}" if first == last else f"{first}-{last}"


def note(stem: str) -> str:
    """The first sentence about the behaviour in a handler's docstring; nothing if it has none."""
    file = ROOT / "src" / "kavka" / "broker" / "handlers" / f"{stem}.py"
    if not file.exists():
        return ""
    doc = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    _, found, rest = doc.partition("Behaviour:")
    if not found:
        return ""
    words = " ".join(rest.split("\n\n")[0].partition("\nErrors:")[0].split())
    return words.partition(". ")[0].rstrip(".")


PAGES: Final[dict[str, Callable[[], str]]] = {
    "docs/configuration.md": configuration,
    "docs/compatibility.md": compatibility,
}


def stale() -> list[str]:
    """The pages whose file is not what would be written."""
    return [name for name, page in PAGES.items() if not (ROOT / name).exists() or (ROOT / name).read_text() != page()]


def misnamed() -> dict[str, str]:
    """Keys that the pages call effective although no code acts on them, or the reverse, and which of the two."""
    acted = acted_on()
    found = {}
    for prefix, settings in (("", BROKER), ("TOPIC_", TOPIC), ("", group.SETTINGS)):
        for setting in settings.values():
            effective = prefix + constant(setting) in acted or any(follower in acted for follower in followers(setting))
            if effective != setting.honoured:
                found[setting.name] = "has an effect" if effective else "has no effect"
    return found


AS_IT_BEGAN: Final = frozenset(
    {("controller/configs.py", "MIN_INSYNC_REPLICAS"), ("controller/bootstrap.py", "MIN_INSYNC_REPLICAS")}
)
"""Where what a node was started with is what is asked for: the first setting of a new cluster."""


def frozen() -> dict[str, list[str]]:
    """Keys that may change in a running cluster, and the files that read what the node was started with instead."""
    source = ROOT / "src" / "kavka"
    settings = (one for one in BROKER.values() if one.honoured and one.update is not Update.READ_ONLY)
    changing = {constant(setting): setting.name for setting in settings}
    found: dict[str, list[str]] = {}
    for file in sorted(source.rglob("*.py")):
        place = file.relative_to(source).as_posix()
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Subscript):
                continue
            name = ast.unparse(node.slice).rpartition(".")[2]
            begun = ast.unparse(node.value).endswith((".static", "config.values"))
            if begun and name in changing and (place, name) not in AS_IT_BEGAN:
                found.setdefault(changing[name], []).append(place)
    return found


def followers(setting: Setting[Any]) -> Iterator[str]:
    """The names in code of the topic and group settings that follow a broker's."""
    for prefix, settings in (("TOPIC_", TOPIC), ("", group.SETTINGS)):
        for each in settings.values():
            if any(synonym.setting is setting for synonym in each.synonyms):
                yield prefix + constant(each)


def acted_on() -> set[str]:
    """The names of settings in code, but for the tables and for functions that only check what is allowed."""
    source = ROOT / "src" / "kavka"
    tables = source / "model" / "settings"
    found: set[str] = set()
    for file in source.rglob("*.py"):
        if not file.is_relative_to(tables) or file.name == "rules.py":
            found |= names_in(ast.parse(file.read_text()))
    return found | {constant(BROKER[name]) for name in OTHER_NAMES}


def names_in(module: ast.Module) -> set[str]:
    """The constants that a module uses and does not define itself."""
    used: set[str] = set()
    own: set[str] = set()
    left: list[ast.AST] = [module]
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef) and node.name.lstrip("_").startswith(("check", "validate")):
            continue
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else own).add(node.id)
        elif isinstance(node, ast.Attribute):
            used.add(node.attr)
        left += ast.iter_child_nodes(node)
    return used - own


def constant(setting: Setting[Any]) -> str:
    """The name of a broker setting in code."""
    return setting.name.upper().replace(".", "_")


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or only say which are out of date."""
    if list(arguments) == ["--misnamed"]:
        sys.stdout.writelines(f"{name} {truth}\n" for name, truth in misnamed().items())
        return 0
    if list(arguments) not in ([], ["--check"]):
        sys.stderr.write("usage: python tools/gen_docs.py [--check | --misnamed]\n")
        return 2
    old = stale()
    for name in old:
        if arguments:
            sys.stderr.write(f"{name} is out of date: run python tools/gen_docs.py\n")
        else:
            (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / name).write_text(PAGES[name](), encoding="utf-8")
            sys.stdout.write(f"wrote {name}\n")
    return 1 if arguments and old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

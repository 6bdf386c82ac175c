"""The shape of the code: who may import whom, what pure means, how long things may be.

Changing a table here is a decision record in docs/decisions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "kavka"

ALLOWED = {
    "model": "",
    "kernels": "model",
    "pacing": "model",
    "wire": "model kernels",
    "security": "model",
    "raft": "model",
    "replication": "model",
    "share": "model",
    "telemetry": "model wire",
    "protocol": "model wire",
    "records": "model wire protocol kernels",
    "catalog": "model protocol",
    "metadata": "model protocol security",
    "controller": "model protocol security metadata",
    "coordinator": "model protocol metadata",
    "storage": "model wire protocol records kernels telemetry",
    "tiered": "model protocol records storage catalog telemetry",
    "net": "model pacing wire protocol security kernels telemetry",
    "client": "model protocol records security net",
    "replica": "model pacing protocol records metadata replication storage tiered client kernels telemetry",
    "quorum": "model pacing protocol records metadata raft controller storage net client telemetry",
    "runtime": "model pacing protocol records metadata coordinator share catalog replica tiered client telemetry",
    "console": "model client net telemetry",
    "spark": "model records kernels client catalog tiered telemetry",
}
EDGES = {"console", "spark"}  # they stand beside the broker, not below it
INNER = set(ALLOWED) - EDGES
ALLOWED["broker"] = " ".join(sorted(INNER - {"wire", "raft"}))
ALLOWED["testing"] = " ".join(sorted(INNER | {"broker"}))
ALLOWED["cli"] = " ".join(sorted(set(ALLOWED) | {"testing"}))

PURE = {
    "model", "kernels", "wire", "protocol", "records",
    "security", "metadata", "raft", "replication", "share", "catalog", "controller", "coordinator",
}  # fmt: skip
IMPURE_MODULES = {"asyncio", "socket", "ssl", "os", "pathlib", "time", "random", "threading", "logging"}
IMPURE_EXEMPT = {
    "model/clock.py": {"time"},  # where time comes from
    "kernels/__init__.py": {"os"},  # the switch between the compiled kernels and their twins is a variable
}

FILE_LINES = 600
HANDLER_LINES = 150
FUNCTION_LINES = 50
LONG_EXEMPT = ("kernels/", "protocol/schemas/")  # flat inner loops; message declarations
BANNED_NAMES = {"utils", "util", "common", "helpers", "helper"}
ASKED_OF_CONTROLLER = {"submit", "quorum", "status", "broker_disconnected"}  # what a MetadataView cannot answer
FIRST_STEP = {"client/connection.py", "client/connector.py", "client/line.py"}  # what handlers reach in others' tasks
HOLDS_LOGS = {"storage", "replica", "quorum"}  # the last has one of its own
OWN_TASK = {"quorum/controller_loop.py", "quorum/snapshotting.py"}  # their limits are in what a task group runs
CONNECTORS = {"broker/wiring.py", "client/pool.py"}  # where it is decided how connections are secured
TASK_GROUPS = {"tg", "group", "_group", "tasks", "_tasks"}


def files(folder: Path = SOURCE) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def short(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix() if path.is_relative_to(SOURCE) else path.relative_to(ROOT).as_posix()


def package(path: Path) -> str:
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else ""  # the modules beside the packages (version, __main__) belong to none


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Every module a file imports, anywhere in it, with the line."""
    here = ["kavka", *path.relative_to(SOURCE).with_suffix("").parts]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(here[: -node.level]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            yield node.lineno, module
            if module == "kavka":
                yield from ((node.lineno, f"kavka.{alias.name}") for alias in node.names)


def own_imports(path: Path) -> Iterator[tuple[int, str]]:
    """The packages of ours that a file imports."""
    for line, module in imported(path):
        head, _, rest = module.partition(".")
        if head == "kavka" and rest and (SOURCE / rest.partition(".")[0]).is_dir():
            yield line, rest.partition(".")[0]


def test_the_import_table_has_no_cycles() -> None:
    order = list(TopologicalSorter({name: allowed.split() for name, allowed in ALLOWED.items()}).static_order())
    assert order.index("model") < order.index("broker") < order.index("cli")


def test_every_package_is_in_the_import_table() -> None:
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert packages <= set(ALLOWED)


def test_packages_import_only_what_the_table_allows() -> None:
    wrong = [
        f"{short(path)}:{line} imports {target}"
        for path in files()
        if package(path)
        for line, target in own_imports(path)
        if target != package(path) and target not in ALLOWED[package(path)].split()
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_pure_packages_do_not_touch_the_world() -> None:
    wrong = [
        f"{short(path)}:{line} imports {module}"
        for path in files()
        if package(path) in PURE
        for line, module in imported(path)
        if module.partition(".")[0] in IMPURE_MODULES - IMPURE_EXEMPT.get(short(path), set())
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_files_are_not_too_long() -> None:
    wrong = [
        f"{short(path)} has {count} lines, {limit} are the limit"
        for path in (*files(), *files(ROOT / "tests"), *files(ROOT / "tools"), *files(ROOT / "bench"))
        for count, limit in [(len(path.read_text(encoding="utf-8").splitlines()), limit_of(path))]
        if count > limit and not short(path).startswith(LONG_EXEMPT)
    ]
    assert not wrong, "\n".join(["", *wrong])


def limit_of(path: Path) -> int:
    return HANDLER_LINES if path.is_relative_to(SOURCE / "broker" / "handlers") else FILE_LINES


def test_functions_are_not_too_long() -> None:
    wrong = [
        f"{short(path)}:{node.lineno} {node.name} has {count} lines, {FUNCTION_LINES} are the limit"
        for path in files()
        if not short(path).startswith(LONG_EXEMPT)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for count in [(node.end_lineno or node.lineno) - node.body[0].lineno + 1]  # parameters are declarations
        if count > FUNCTION_LINES
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_no_module_is_a_drawer_for_everything() -> None:
    wrong = [short(path) for path in files() if {path.stem, *path.relative_to(SOURCE).parts} & BANNED_NAMES]
    assert not wrong, "\n".join(["", *wrong])


def test_tasks_belong_to_a_task_group() -> None:
    wrong = [
        f"{short(path)}:{node.lineno} starts a task without an owner"
        for path in files()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and starts_ownerless_task(node.func)
    ]
    assert not wrong, "\n".join(["", *wrong])


def starts_ownerless_task(function: ast.expr) -> bool:
    match function:
        case ast.Name(id="create_task" | "ensure_future") | ast.Attribute(attr="ensure_future"):
            return True
        case ast.Attribute(attr="create_task", value=ast.Name(id=owner) | ast.Attribute(attr=owner)):
            return owner not in TASK_GROUPS
        case ast.Attribute(attr="create_task"):
            return True
    return False


def test_what_handlers_may_call_sets_time_limits_that_need_no_task() -> None:
    wrong = [
        f"{short(path)}:{node.lineno} fails in a handler's first step: use kavka.client.deadline.within"
        for path in files()
        if package(path) in ("broker", "runtime", "quorum") or short(path) in FIRST_STEP
        if short(path) not in OWN_TASK
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and needs_task(node.func)
    ]
    assert not wrong, "\n".join(["", *wrong])


def needs_task(function: ast.expr) -> bool:
    match function:
        case ast.Attribute(attr="timeout" | "timeout_at" | "wait_for", value=ast.Name(id="asyncio")):
            return True
    return False


def test_handlers_go_by_the_settings_in_force() -> None:
    wrong = [
        f"{short(path)} is given what the node was started with: take LiveSettings"
        for path in files(SOURCE / "broker" / "handlers")
        if "Values" in services_of(path)
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_handlers_that_only_read_the_metadata_take_the_view() -> None:
    wrong = [
        f"{short(path)} only reads the metadata: take MetadataView, not ControllerLoop"
        for path in files(SOURCE / "broker" / "handlers")
        if "ControllerLoop" in services_of(path) and not asks_controller(tree(path))
    ]
    assert not wrong, "\n".join(["", *wrong])


def services_of(path: Path) -> set[str]:
    """The types that a handler names in its signature."""
    found = (node for node in tree(path).body if isinstance(node, ast.AsyncFunctionDef) and node.name == path.stem)
    return {one.annotation.id for node in found for one in node.args.args if isinstance(one.annotation, ast.Name)}


def asks_controller(module: ast.Module) -> bool:
    """Whether more than the image is asked of what is called the controller."""
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "controller"
        and node.attr in ASKED_OF_CONTROLLER
        for node in ast.walk(module)
    )


def test_nobody_dials_but_a_connector_and_nobody_has_one_that_was_not_handed_to_him() -> None:
    wrong = [
        f"{short(path)}:{node.lineno} dials past its connector"
        for path in files()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        if (dials(node.func) and short(path) != "client/connector.py")
        or (makes_connector(node.func) and short(path) not in CONNECTORS)
    ]
    assert not wrong, "\n".join(["", *wrong])


def dials(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr in ("dial", "open_connection")


def makes_connector(function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and function.id == "Connector"


def test_a_partition_is_the_only_door_to_its_log() -> None:
    wrong = [
        f"{short(path)}:{line} reaches for a log: ask the partition"
        for path in files()
        if package(path) not in HOLDS_LOGS
        for line in (*reaching_for_logs(path), *(line for line, module in imported(path) if is_log_of_disk(module)))
    ]
    assert not wrong, "\n".join(["", *wrong])


def reaching_for_logs(path: Path) -> list[int]:
    """The lines of a file that may be given partitions, on which it asks something for its log."""
    given = package(path) in ("broker", "runtime") or any(target == "replica" for _, target in own_imports(path))
    return [node.lineno for node in ast.walk(tree(path)) if given and reaches_for_log(node)]


def reaches_for_log(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and node.attr == "log"


def is_log_of_disk(module: str) -> bool:
    return module in ("kavka.storage.log", "kavka.storage.segments")


def test_what_others_hold_is_not_written_to() -> None:
    wrong = [
        f"{short(path)}:{node.lineno} assigns a field of the replica manager: give it a method"
        for path in files()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and writes_to_manager(node)
    ]
    assert not wrong, "\n".join(["", *wrong])


def writes_to_manager(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    inner = [one for target in targets for one in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return any(isinstance(one, ast.Attribute) and is_manager(one.value) for one in inner)


def is_manager(owner: ast.expr) -> bool:
    match owner:
        case ast.Name(id="replicas") | ast.Attribute(attr="replicas" | "_replicas"):
            return True
    return False


def test_errors_are_not_swallowed() -> None:
    wrong = [
        f"{short(path)}:{node.lineno} swallows every error"
        for path in files()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ExceptHandler) and catches_all(node) and only_passes(node)
    ]
    assert not wrong, "\n".join(["", *wrong])


def catches_all(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(
        one is None or (isinstance(one, ast.Name) and one.id in ("Exception", "BaseException")) for one in caught
    )


def only_passes(handler: ast.ExceptHandler) -> bool:
    return all(isinstance(step, ast.Pass | ast.Continue) or is_ellipsis(step) for step in handler.body)


def is_ellipsis(step: ast.stmt) -> bool:
    return isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant) and step.value.value is ...


def call(text: str) -> ast.expr:
    statement = ast.parse(text).body[0]
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    return statement.value.func


def handler(text: str) -> ast.ExceptHandler:
    statement = ast.parse(f"try: f()\n{text}").body[0]
    assert isinstance(statement, ast.Try)
    return statement.handlers[0]


def test_the_rules_see_what_they_forbid() -> None:
    for text in ("asyncio.create_task(x)", "create_task(x)", "loop().create_task(x)", "asyncio.ensure_future(x)"):
        assert starts_ownerless_task(call(text)), text
    for text in ("tg.create_task(x)", "self._group.create_task(x)", "run(x)"):
        assert not starts_ownerless_task(call(text)), text
    assert needs_task(call("asyncio.timeout(1)"))
    assert not needs_task(call("within(1)"))
    assert dials(call("self._dial.dial(host, port, receiver)"))
    assert makes_connector(call("Connector(dial)"))
    assert reaches_for_log(call("partition.log.read()").value)  # type: ignore[attr-defined]
    for text in ("replicas.image = x", "a, self._replicas.proposed = b", "replicas.x += 1"):
        (statement,) = ast.parse(text).body
        assert isinstance(statement, ast.Assign | ast.AugAssign)
        assert writes_to_manager(statement), text
    (own,) = ast.parse("self._replicas = replicas").body
    assert isinstance(own, ast.Assign)
    assert not writes_to_manager(own)
    assert asks_controller(ast.parse("await controller.submit(x)"))
    assert not asks_controller(ast.parse("controller.image.topics"))
    assert {"MetadataView", "LiveSettings"} <= services_of(SOURCE / "broker" / "handlers" / "metadata.py")
    for text in ("except Exception: pass", "except: ...", "except (OSError, BaseException): pass"):
        assert catches_all(handler(text)), text
        assert only_passes(handler(text)), text
    assert not catches_all(handler("except OSError: pass"))
    assert not only_passes(handler("except Exception: log()"))

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from kavka.broker.handlers import HANDLERS, HOT
from kavka.model.settings import BROKER, TOPIC
from kavka.protocol.registry import API

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def gen_docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gen_docs", ROOT / "tools" / "gen_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_pages_are_what_the_code_says(gen_docs: ModuleType) -> None:
    assert gen_docs.stale() == [], "run python tools/gen_docs.py"


def test_every_key_is_on_the_configuration_page(gen_docs: ModuleType) -> None:
    page = gen_docs.configuration()
    missing = [name for name in (*BROKER, *TOPIC) if f"| `{name}` |" not in page]
    assert missing == []


def test_every_api_is_on_the_compatibility_page_once(gen_docs: ModuleType) -> None:
    served, _, absent = gen_docs.compatibility().partition("## Not served yet")
    for api in API.values():
        row = f"| {api.key} | {api.name} |"
        assert (row in served, row in absent) == ((True, False) if api.stem in {*HANDLERS, *HOT} else (False, True))


def test_a_check_says_what_is_out_of_date_and_changes_nothing(
    gen_docs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gen_docs, "ROOT", tmp_path)
    monkeypatch.setattr(gen_docs, "PAGES", {"docs/page.md": lambda: "text\n"})
    assert gen_docs.main(["--check"]) == 1
    assert "docs/page.md is out of date" in capsys.readouterr().err
    assert not (tmp_path / "docs").exists()
    assert gen_docs.main([]) == 0
    assert (tmp_path / "docs" / "page.md").read_text() == "text\n"
    assert gen_docs.main(["--check"]) == 0
    assert gen_docs.main(["--verify"]) == 2


def test_what_is_said_to_have_an_effect_has_one_and_nothing_else_does(gen_docs: ModuleType) -> None:
    assert gen_docs.misnamed() == {}


def test_what_is_only_checked_is_not_acted_on(gen_docs: ModuleType) -> None:
    code = "A = 1\ndef _check_it(values): return values[B]\ndef do(values): return values[keys.C], values[D], A"
    names = gen_docs.names_in(ast.parse(code))
    assert {"C", "D"} <= names
    assert not {"A", "B"} & names


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("log.segment.bytes", "`1073741824` (1 GiB)"),
        ("log.flush.interval.messages", "no limit"),
        ("log.retention.ms", ""),
        ("connections.max.idle.ms", "`600000` (10 min)"),
        ("num.partitions", "`1`"),
        ("delete.topic.enable", "`true`"),
    ],
)
def test_defaults_are_shown_with_their_units(gen_docs: ModuleType, key: str, shown: str) -> None:
    assert gen_docs.default_of(BROKER[key]) == shown


def test_what_may_change_is_not_read_from_what_the_node_was_started_with(gen_docs: ModuleType) -> None:
    assert gen_docs.frozen() == {}


def test_a_key_that_is_only_read_at_the_start_is_found(
    gen_docs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src" / "kavka").mkdir(parents=True)
    (tmp_path / "src" / "kavka" / "late.py").write_text("limit = node.config.values[b.MAX_CONNECTIONS]\n")
    monkeypatch.setattr(gen_docs, "ROOT", tmp_path)
    assert gen_docs.frozen() == {"max.connections": ["late.py"]}

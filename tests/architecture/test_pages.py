"""What the pages for people who join say of the tree is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "kavka"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


def test_every_package_is_in_the_picture_and_in_the_table() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    picture, table = page.split("```")[1], re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(table) == PACKAGES
    assert [name for name in PACKAGES if not re.search(rf"\b{name}\b", picture)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?://)([^)\s#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_files_that_the_contributing_page_names_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("describe_things", "describe_producers")
    named = {name for name in re.findall(r"`([\w./]+/[\w./]+)`", text) if not name.startswith("build/")}
    places = (ROOT, SOURCE, ROOT / "tests")
    assert len(named) > 15
    assert [name for name in sorted(named) if not any((place / name).exists() for place in places)] == []

"""Every fenced block of every page is run where it stands, or is checked in another way."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from docs.elsewhere import ELSEWHERE, Elsewhere
from docs.pages import PAGES, ROOT, Block, blocks
from kavka.broker.config import load_config
from kavka.model.properties import parse_properties
from kavka.testing import Cluster

EVERY = [block for page in PAGES for block in blocks(page)]
PROGRAMS = {"console", "python"}
TEXTS = {"", "json", "properties", "yaml"}
CLIENTS = {"security.protocol", "bootstrap.servers", "sasl.mechanism"}
"""Keys that only a client.properties has."""


def ids(block: Block) -> str:
    return f"{block.page}:{block.line}"


def test_each_is_run_or_in_the_list() -> None:
    left = [
        block.where
        for block in EVERY
        if block.language in PROGRAMS and not block.runs and not any(each.is_about(block) for each in ELSEWHERE)
    ]
    assert left == [], "say `test` or `file=NAME` after the language, or add it to tests/docs/elsewhere.py"


def test_no_other_block_is_a_program() -> None:
    assert [block.where for block in EVERY if block.language not in PROGRAMS | TEXTS and not block.runs] == []
    hidden = [
        block.where for block in EVERY if block.language in TEXTS and re.search(r"^\$ ", block.text, re.MULTILINE)
    ]
    assert hidden == []


@pytest.mark.parametrize("exception", ELSEWHERE, ids=lambda each: f"{each.page}:{each.first}")
def test_the_list_is_up_to_date(exception: Elsewhere) -> None:
    (block,) = (block for block in EVERY if exception.is_about(block))
    assert not block.runs
    assert exception.checked or exception.smaller
    for name in exception.checked:
        file, _, test = name.partition("::")
        defined = {node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)}
        assert test in defined, name


@pytest.mark.parametrize("block", [each for each in EVERY if each.language == "properties"], ids=ids)
def test_settings_are_known(block: Block, tmp_path: Path) -> None:
    keys = parse_properties(block.text)
    assert keys
    if CLIENTS & keys.keys():
        return
    file = tmp_path / "server.properties"
    file.write_text(re.sub(r"^ssl\..*\n", "", block.text, flags=re.MULTILINE))
    config = load_config(str(file), environment={} if "log.dirs" in keys else {"KAVKA_LOG_DIRS": str(tmp_path)})
    assert config.warnings == ()


@pytest.mark.parametrize("block", [each for each in EVERY if each.language in ("json", "yaml")], ids=ids)
def test_what_should_be_json_or_yaml_is(block: Block) -> None:
    assert json.loads(block.text) if block.language == "json" else yaml.safe_load(block.text)


def test_the_ready_file_is_as_the_page_says() -> None:
    (shown,) = (json.loads(block.text) for block in EVERY if block.language == "json" and "node_id" in block.text)
    with Cluster() as cluster:
        assert list(cluster.node(1).ready) == list(shown)


def test_make_has_the_targets() -> None:
    text = "".join(block.text for block in EVERY if block.page in ("README.md", "CONTRIBUTING.md"))
    named = re.findall(r"^\$ make ([a-z-]+)", text, re.MULTILINE)
    assert {"demo", "demo-node", "test", "unit", "check"} <= set(named)
    for target in named:
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert os.access(ROOT / ".ci" / "run", os.X_OK)

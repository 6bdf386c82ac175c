"""The list of handlers, the folder, the schemas and the services of a node agree."""

from __future__ import annotations

import asyncio
import inspect
from importlib import import_module
from pathlib import Path

import pytest

from kavka.broker import handlers
from kavka.broker.config import load_config
from kavka.broker.handlers import AT_CONTROLLERS, HANDLERS, HOT, load, modules
from kavka.broker.handlers.api_versions import served
from kavka.broker.handlers.marks import NOTHING, PER_ITEM, needs_of, request_of
from kavka.broker.wiring import Node
from kavka.model.clock import SystemClock
from kavka.protocol.registry import API
from kavka.storage.disk import RealDisk

BY_STEM = {api.stem: api for api in API.values()}
NO_HANDLERS = {"__init__", "marks"}


def test_the_list_names_every_module_of_the_folder_once_and_in_order():
    stems = {path.stem for path in Path(handlers.__file__).parent.glob("*.py")} - NO_HANDLERS
    stems -= set(AT_CONTROLLERS.values())
    assert {*HANDLERS, *HOT} == stems
    assert len(HANDLERS) + len(HOT) == len(stems)
    assert list(HANDLERS) == sorted(HANDLERS)


@pytest.mark.parametrize("stem", HANDLERS)
def test_a_handler_is_named_after_its_api_and_serves_its_request(stem):
    api = BY_STEM[stem]
    function = load(stem)
    assert request_of(function) is api.request()
    assert function.__name__ == stem
    assert inspect.iscoroutinefunction(function)
    assert inspect.signature(function, eval_str=True).return_annotation is api.response()


@pytest.mark.parametrize("stem", [*HANDLERS, *HOT])
def test_a_handlers_file_begins_with_its_api_and_versions(stem):
    api = BY_STEM[stem]
    module = import_module(f"{handlers.__name__}.{stem}")
    low, high = api.min_version, api.latest_stable_version
    versions = f"v{low}-{high}" if low != high else f"v{low}"
    assert module.__doc__.splitlines()[0] == f"{api.name}: {versions}."


def test_what_is_advertised_is_what_is_served():
    at_brokers = {BY_STEM[stem].key for stem in (*HANDLERS, *HOT) if "broker" in BY_STEM[stem].listeners}
    assert {row.api_key for row in served()} == at_brokers
    assert {row.api_key for row in served("controller")} == set(modules("controller"))


def test_every_handler_finds_its_services_in_a_node(tmp_path):
    """A node binds all its handlers before it waits to be stopped, and does not start without a service."""
    config = load_config(data_dir=str(tmp_path / "data"), listen="127.0.0.1:0")
    ready = []

    async def go():
        stopping = asyncio.Event()

        def said(report):
            ready.append(report)
            stopping.set()

        await Node(config, RealDisk(), SystemClock()).run(said, stopping)

    asyncio.run(asyncio.wait_for(go(), 30))
    assert ready


def asks_for_rights(stem):
    """Whether a handler, or what it calls in its own module, asks its context for rights."""
    source = Path(handlers.__file__).parent.joinpath(f"{stem}.py").read_text()
    return any(f"ctx.{method}(" in source for method in ("require", "allows", "permitted", "allows_any")) or (
        any(f"{function}(" in source for function in ("require_config_right", "change_configs", "require_proof"))
    )


@pytest.mark.parametrize("stem", [*HANDLERS, *AT_CONTROLLERS.values()])
def test_a_handler_says_what_it_needs_and_asks_where_it_says_so(stem):
    needs = needs_of(load(stem))
    if needs is PER_ITEM:
        assert asks_for_rights(stem)
    elif needs is NOTHING:
        assert stem in {
            "api_versions",
            "get_telemetry_subscriptions",
            "push_telemetry",
            "sasl_authenticate",
            "sasl_handshake",
        }

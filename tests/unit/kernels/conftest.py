"""Both twins of each kernel: a test that takes `batches`, `frames` or `responses` runs once with each."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from kavka.kernels import COMPILED


def twin(name: str, kind: str) -> ModuleType:
    """One of a kernel's two implementations."""
    if kind == "compiled" and not COMPILED:
        pytest.skip("the kernels are not compiled here")
    return importlib.import_module(f"kavka.kernels.{'_' if kind == 'compiled' else 'plain_'}{name}")


@pytest.fixture(params=["plain", "compiled"], scope="module")
def batches(request: pytest.FixtureRequest) -> ModuleType:
    """The batches kernel."""
    return twin("batches", request.param)


@pytest.fixture(params=["plain", "compiled"], scope="module")
def frames(request: pytest.FixtureRequest) -> ModuleType:
    """The frames kernel."""
    return twin("frames", request.param)


@pytest.fixture(params=["plain", "compiled"], scope="module")
def responses(request: pytest.FixtureRequest) -> ModuleType:
    """The responses kernel."""
    return twin("responses", request.param)

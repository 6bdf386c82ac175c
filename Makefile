# Kavka. `make` lists the targets; each sets up what it needs.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# A Python from 3.11 on that can make environments; `make PYTHON=/path/to/python3 test` chooses another.
FIND_PYTHON = for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo "$$p" && break; done
PYTHON ?= $(shell $(FIND_PYTHON))
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.kavka-ready
KERNELS := $(VENV)/.kavka-kernels
SOURCES := $(wildcard src/kavka/kernels/*.py src/kavka/kernels/*.pxd) $(wildcard setup.py)

# Tests run side by side, one more at a time than there are cores, because many of them wait; tests/conftest.py says
# which share a worker.
WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
PYTEST = $(BIN)/python -m pytest -q
SIDE_BY_SIDE = --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder
# sslyze needs older libraries than ours: it has an environment of its own. Without it its tests say so.
SSLYZE := .cache/sslyze/bin/sslyze
VERSITYGW := .cache/versitygw/versitygw
AZURITE := .cache/azurite/node_modules/.bin/azurite-blob
SMALL := tests/unit tests/architecture

# uv installs in a third of pip's time; but it knows nothing of what pip is told in its own configuration.
INSTALL_WITH_UV = $(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --no-build-isolation --editable '.[test]'
INSTALL_WITH_PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --editable '.[test]'

.PHONY: help demo demo-node demo-tiered unit test coverage check chaos-tiered bench bench-kafka object-servers kerberos compat-jvm compat-jvm-as-user clean setup

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup ## The whole story: a node, orders, a Spark pipeline, lake tables, a report; about two minutes
	@$(BIN)/python examples/pipeline_demo.py

demo-node: setup ## A node alone: produce and consume, show the figures; half a minute, no Java
	@$(BIN)/python examples/demo.py

demo-tiered: setup ## Tiered storage: a node loses its disk and is made anew out of the store; S3=1: out of a local S3 server
	@$(BIN)/python examples/tiered_demo.py $(if $(S3),--s3)

unit: setup ## Run the tests that start no nodes and no Spark; within a minute
	@$(PYTEST) $(SIDE_BY_SIDE) -m 'not apart' $(SMALL)

test: setup $(SSLYZE) ## Run the tests; those that measure time after the others
	@$(PYTEST) $(SIDE_BY_SIDE) -m 'not apart'
	@$(PYTEST) -m apart

coverage: setup ## Show how much of the code the tests of `make unit` run, and write build/coverage/index.html
	@$(PYTEST) $(SIDE_BY_SIDE) -m 'not apart' --cov --cov-report=term:skip-covered --cov-report=html $(SMALL)

check: setup ## Lint, formatting, types, architecture
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/architecture

chaos-tiered: setup ## Kill nodes that tier to a failing store, round after round (KAVKA_SCALE=full: 60 rounds, 15 minutes)
	@$(PYTEST) tests/cluster/test_tiering_chaos.py

bench: setup ## Measure start-up, memory, latency and throughput
	@$(BIN)/python -m bench

bench-kafka: setup ## The same work on Kavka and on Apache Kafka, in turns; half an hour (needs Java and Maven Central)
	@$(BIN)/python tools/kafka_jars/fetch.py
	@$(BIN)/python -m bench.rival $(ARGS)

object-servers: $(VERSITYGW) $(AZURITE) ## Build the object stores of other people that tests use where they are there (needs Go and npm; some minutes)

kerberos: setup ## Unpack Debian's Kerberos server and librdkafka, which tests use where they are there (needs apt-get and a C compiler; two minutes)
	@$(BIN)/python tools/kerberos/fetch.py

compat-jvm: setup ## Test with Kafka's own Java clients and tools (needs Java and Maven Central)
	@$(BIN)/python tools/kafka_jars/fetch.py
	@KAVKA_COMPAT_JVM=1 $(PYTEST) $(SIDE_BY_SIDE) --numprocesses=2 tests/compat/jvm

compat-jvm-as-user: setup ## The cases of Kafka's tools again, as a user with exactly the rights of the table
	@$(BIN)/python tools/kafka_jars/fetch.py
	@KAVKA_COMPAT_JVM=1 KAVKA_COMPAT_AS_USER=1 $(PYTEST) tests/compat/jvm/test_tool_*.py

clean: ## Remove everything that make created
	@rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis bench/out
	@rm -f src/kavka/kernels/*.so src/kavka/kernels/*.c src/kavka/kernels/*.html
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup: $(READY) $(KERNELS)

$(VERSITYGW):
	@echo "Building versitygw"
	@GOBIN="$(CURDIR)/$(@D)" go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

$(AZURITE):
	@echo "Installing Azurite"
	@npm install --silent --no-audit --no-fund --prefix .cache/azurite azurite@3.35.0

$(READY): pyproject.toml
	@test -x $(BIN)/python || { test -n "$(PYTHON)" || { echo "Kavka needs Python 3.11 or newer (with venv)" >&2; exit 1; }; \
		echo "Creating $(VENV) with $(PYTHON)"; "$(PYTHON)" -m venv $(VENV); }
	@echo "Installing Kavka and its test tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'setuptools>=77' 'Cython>=3.1' uv
	@$(INSTALL_WITH_UV) || { echo "uv could not install it; pip does"; $(INSTALL_WITH_PIP); }
	@if command -v krb5-config >/dev/null && command -v cc >/dev/null; then \
		echo "Building gssapi"; $(BIN)/python -m pip install --quiet --disable-pip-version-check 'gssapi>=1.8' \
		|| echo "gssapi cannot be built: Kerberos is not tested"; \
		else echo "No libkrb5-dev or no C compiler: Kerberos is not tested"; fi
	@$(BIN)/python -m compileall -q src
	@touch $@

$(SSLYZE): | $(READY)
	@echo "Installing sslyze into .cache/sslyze"
	@$(BIN)/python -m venv .cache/sslyze
	@.cache/sslyze/bin/python -m pip install --quiet --disable-pip-version-check sslyze \
		|| echo "sslyze cannot be installed: its tests say so"

# Rebuilt when a kernel's source changes. Without a C compiler the plain-Python twins run.
$(KERNELS): $(READY) $(SOURCES)
	@if command -v cc >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null; \
	then echo "Compiling the kernels"; $(BIN)/python setup.py --quiet build_ext --inplace; \
	else echo "No C compiler: the plain-Python kernels will run"; fi
	@touch $@

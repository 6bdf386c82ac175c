"""The blocks of commands and programs that are not run where they stand: why, and what checks them instead.

This is the whole list: a block that is neither run nor here fails `test_every_block.py`, and so does an entry without
its block, or whose check does not exist.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from docs.pages import Block


class Elsewhere(NamedTuple):
    """A block that is not run as it is."""

    page: str
    first: str
    """Its first line."""
    reason: str
    checked: tuple[str, ...] = ()
    """The tests that check it, as pytest names them."""
    smaller: tuple[str, str] | None = None
    """What is replaced by what, so that the commands can be run."""

    def is_about(self, block: Block) -> bool:
        """Whether a block is this one."""
        return block.page == self.page and block.text.startswith(self.first)


_DEPLOY: Final = "tests/component/test_deploy.py"
_TARGETS: Final = "tests/docs/test_every_block.py::test_make_has_the_targets"
_SPARK: Final = "tests/spark/test_page.py"

ELSEWHERE: Final = (
    Elsewhere(
        "README.md",
        "$ make demo ",
        "runs for minutes, and the last of its targets is this suite",
        (
            _TARGETS,
            "tests/spark/test_demo.py::test_the_totals_match_the_report_is_written_and_nothing_is_left",
            "tests/component/test_examples.py::test_the_demo_of_a_node_reads_back_what_it_wrote",
        ),
    ),
    Elsewhere("CONTRIBUTING.md", "$ make unit ", "its targets are this suite", (_TARGETS,)),
    Elsewhere(
        "docs/spark.md",
        "$ spark-class",
        "starts four JVMs",
        ("tests/spark/test_clusters.py::test_the_commands_of_the_page",),
    ),
    Elsewhere(
        "docs/operations.md",
        "$ sudo useradd",
        "takes root and a systemd that runs, and Kavka on PyPI",
        (
            f"{_DEPLOY}::test_the_steps_of_the_page_are_those_of_the_unit",
            f"{_DEPLOY}::test_the_command_of_the_unit_runs",
            f"{_DEPLOY}::test_systemd_understands_the_unit",
        ),
    ),
    Elsewhere(
        "docs/operations.md",
        "$ docker compose",
        "takes PyPI and a container engine",
        (
            f"{_DEPLOY}::test_the_image_is_built_and_runs",
            f"{_DEPLOY}::test_the_entry_point_of_the_image_runs",
            f"{_DEPLOY}::test_the_image_is_made_as_it_should",
            f"{_DEPLOY}::test_what_the_image_is_made_of_is_all_that_a_build_needs",
            f"{_DEPLOY}::test_the_compose_file_says_what_compose_knows",
        ),
    ),
    Elsewhere(
        "docs/registry.md",
        "from confluent_kafka.schema_registry import SchemaRegistryClient",
        "its node is another machine with certificates",
        ("tests/component/test_registry_security.py::test_a_password_lets_in_whichever_mechanism_knows_it",),
    ),
    Elsewhere(
        "docs/testing.md",
        "$ python -m kavka.testing.sim --seeds",
        "takes a quarter of an hour",
        smaller=("--seeds 0-300", "--seeds 0-1 --lines 0"),
    ),
    Elsewhere(
        "docs/testing.md",
        "$ python tests/sim/planted.py",
        "takes many minutes",
        ("tests/sim/test_simulation.py::test_a_planted_bug_is_found",),
    ),
    *(
        Elsewhere("docs/spark.md", first, "is a part of a program that has a session", (f"{_SPARK}::{test}",))
        for first, test in (
            ("import kavka.spark", "test_the_programs_of_the_page"),
            ("query = (", "test_the_programs_of_the_page"),
            ("orders = (", "test_the_programs_of_the_page"),
            ("history = (", "test_the_programs_of_the_page"),
            ("def named(prices)", "test_the_programs_of_the_page"),
        )
    ),
)

"""All cases on one fresh node."""

from __future__ import annotations

from dataclasses import dataclass

from jvm.differential.areas.order import CASES
from jvm.differential.shape import Tree, shape
from jvm.differential.talk import Outcome, Talker
from jvm.nodes import Node


@dataclass(frozen=True)
class Told:
    """What one node did with every case."""

    outcomes: dict[str, Outcome]
    trees: dict[str, Tree]


def ask_everything(node: Node) -> Told:
    """Run all cases on a fresh node."""
    outcomes: dict[str, Outcome] = {}
    trees: dict[str, Tree] = {}

    with Talker(node.address) as talker:
        for case in CASES:
            outcome = talker.run(case)
            outcomes[case.name] = outcome
            trees[case.name] = shape(outcome, talker.topic_name, case.masks)
    return Told(outcomes, trees)

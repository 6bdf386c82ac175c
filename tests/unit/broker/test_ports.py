"""What a node has of the world: ids and chance of its own, unless it is given others."""

from __future__ import annotations

import random

from kavka.broker.ports import Ports


def test_what_is_drawn_is_what_the_port_gives() -> None:
    def ports() -> Ports:
        chance = random.Random(7)
        return Ports(entropy=chance.randbytes, chance=chance)

    first, other = ports(), ports()
    assert [first.new_id(), first.new_name(), first.chance.random()] == [
        other.new_id(),
        other.new_name(),
        other.chance.random(),
    ]


def test_nodes_that_are_given_nothing_draw_for_themselves() -> None:
    first, other = Ports(), Ports()
    assert first.new_id() != other.new_id()
    assert first.new_name() != other.new_name()
    assert first.chance.random() != other.chance.random()

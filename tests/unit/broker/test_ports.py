"""What a node has of the world: ids and chance of its own, unless it is given others."""

from __future__ import annotations

import random

from kavka.broker.ports import Ports


def test_what_is_drawn_is_what_the_port_gives() -> None:
    def ports() -> Ports:
        chance = random.Random(7)
        return Ports(entropy=chance.randbytes, chance=chance)

    one, other = ports(), ports()
    assert [one.new_id(), one.new_name(), one.chance.random()] == [
        other.new_id(),
        other.new_name(),
        other.chance.random(),
    ]


def test_nodes_that_are_given_nothing_draw_for_themselves() -> None:
    one, other = Ports(), Ports()
    assert one.new_id() != other.new_id()
    assert one.new_name() != other.new_name()
    assert one.chance.random() != other.chance.random()

"""What a node hears of another one that ends."""

from __future__ import annotations

from kavka.testing.sim.network import Network
from kavka.testing.sim.world import World


class Silent:
    """A node that takes requests and answers when it is told to."""

    def __init__(self, id_: int, network: Network) -> None:
        self.id, self.incarnation, self.alive, self.paused = id_, 1, True, False
        self.answers: list = []
        network.hosts[id_] = self

    def serve(self, sender, kind, request, answer) -> None:
        self.answers.append(answer)


def asked_once() -> tuple[World, Network, Silent, list]:
    world = World(1)
    network = Network(world)
    asking, asked, heard = Silent(1, network), Silent(2, network), []
    network.call(asking, 2, "raft", "?", heard.append)
    world.run_until(100)
    return world, network, asked, heard


def test_who_waits_for_a_process_that_ends_hears_that_there_will_be_no_answer():
    world, network, asked, heard = asked_once()
    assert heard == []
    asked.alive = False
    network.died(2)
    world.run_until(200)
    assert heard == [None]
    asked.answers[0]("too late")
    network.died(2)
    world.run_until(300)
    assert heard == [None]


def test_who_has_its_answer_hears_no_more():
    world, network, asked, heard = asked_once()
    asked.answers[0]("!")
    network.died(2)
    world.run_until(200)
    assert heard == ["!"]


def test_nobody_hears_through_a_parted_network():
    world, network, _, heard = asked_once()
    network.part({2})
    network.died(2)
    world.run_until(200)
    assert heard == []

from kavka.net.limits import ConnectionCount, ConnectionLimits


def test_an_address_gets_no_more_than_its_share():
    count = ConnectionCount(ConnectionLimits(per_host=2))
    assert [count.admit("a"), count.admit("a"), count.admit("a"), count.admit("b")] == [True, True, False, True]


def test_a_released_connection_makes_room_again():
    count = ConnectionCount(ConnectionLimits(per_host=1))
    assert count.admit("a")
    count.release("a")
    assert count.admit("a")
    assert count.total == 1


def test_an_override_wins_over_the_common_share():
    count = ConnectionCount(ConnectionLimits(per_host=5, per_host_overrides={"a": 0}))
    assert not count.admit("a")
    assert count.admit("b")


def test_the_node_is_full_at_its_total():
    count = ConnectionCount(ConnectionLimits(total=1))
    assert not count.full
    count.admit("a")
    assert count.full

from kavka.net.limits import IDLE_MS, NO_LIMIT, ConnectionCount, ConnectionLimits


def test_an_address_gets_no_more_than_its_share():
    count = ConnectionCount(ConnectionLimits(per_host=2))
    assert [count.admit("a", "L"), count.admit("a", "L"), count.admit("a", "L"), count.admit("b", "L")] == [
        True,
        True,
        False,
        True,
    ]


def test_a_released_connection_makes_room_again():
    count = ConnectionCount(ConnectionLimits(per_host=1))
    assert count.admit("a", "L")
    count.release("a", "L")
    assert count.admit("a", "L")
    assert count.total == 1


def test_an_override_wins_over_the_common_share():
    count = ConnectionCount(ConnectionLimits(per_host=5, per_host_overrides={"a": 0}))
    assert not count.admit("a", "L")
    assert count.admit("b", "L")


def test_the_node_is_full_at_its_total():
    count = ConnectionCount(ConnectionLimits(total=1))
    assert not count.full("L")
    count.admit("a", "L")
    assert count.full("L")


def test_a_listener_is_full_at_its_own_cap_and_the_protected_one_only_there():
    count = ConnectionCount(ConnectionLimits(total=2, per_listener={"BROKERS": 2}, protected="BROKERS"))
    assert [count.admit("a", "L"), count.admit("b", "L")] == [True, True]
    assert count.full("L")
    assert not count.full("BROKERS")
    assert [count.admit("a", "BROKERS"), count.admit("a", "BROKERS")] == [True, True]
    assert count.full("BROKERS")
    count.release("a", "BROKERS")
    assert not count.full("BROKERS")


def test_who_comes_too_fast_waits_a_window_at_most():
    count = ConnectionCount(ConnectionLimits(rate=1, listener_rates={"L": 1}))
    assert [count.arrived("L", 0) for _ in range(11)] == [0] * 10 + [1000]
    assert [count.arrived("L", 0) for _ in range(11)] == [1000] * 11


def test_the_node_counts_all_listeners_but_the_protected_one():
    count = ConnectionCount(ConnectionLimits(rate=1, protected="BROKERS"))
    assert [count.arrived("BROKERS", 0) for _ in range(20)] == [0] * 20
    assert [count.arrived("L", 0) for _ in range(11)] == [0] * 10 + [1000]
    assert count.arrived("M", 0) == 1000


def test_an_address_that_is_turned_away_costs_nobody_else_anything():
    limits = ConnectionLimits(rate=10, listener_rates={"L": 10}, host_rates={None: 1, "b": NO_LIMIT})
    count = ConnectionCount(limits)
    outcomes = [(count.arrived("L", 0), count.too_fast("L", "a", 0)) for _ in range(200)]
    assert outcomes == [(0, 0)] * 10 + [(0, 1000)] * 190
    assert [count.too_fast("L", "b", 0) for _ in range(50)] == [0] * 50


def test_another_rate_counts_at_once_and_what_is_idle_is_forgotten():
    count = ConnectionCount(ConnectionLimits(host_rates={"a": 1}))
    assert [count.too_fast("L", "a", 0) for _ in range(11)][-1] == 1000
    count.limits = ConnectionLimits(host_rates={"a": 2})
    assert count.too_fast("L", "a", 0) == 0
    count.forget_idle(IDLE_MS)
    assert not count._rates._rates

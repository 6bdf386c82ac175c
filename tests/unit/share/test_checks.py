"""What share requests are refused for."""

from __future__ import annotations

import pytest

from kavka.model.errors import InvalidRequest, UnsupportedVersion
from kavka.share.checks import check_acknowledgements, check_group, check_member, check_renewal
from kavka.share.partition import Acknowledgement


def test_share_groups_may_be_switched_off():
    with pytest.raises(UnsupportedVersion):
        check_group(0, None)
    with pytest.raises(InvalidRequest):
        check_group(1, None)
    assert check_group(1, "") == ""


@pytest.mark.parametrize("member", [None, "", "x" * 37])
def test_a_member_has_an_id(member):
    with pytest.raises(InvalidRequest):
        check_member(member)
    assert check_member("x" * 36) == "x" * 36


def test_a_fetch_that_renews_asks_for_nothing():
    check_renewal(2, True, (0, 0, 0, 0))
    check_renewal(1, True, (1, 0, 0, 0))
    check_renewal(2, False, (1, 1, 1, 1))
    for at in range(4):
        with pytest.raises(InvalidRequest):
            check_renewal(2, True, [int(at == each) for each in range(4)])


@pytest.mark.parametrize(
    ("said", "version", "renews"),
    [
        ([(5, 4, [1])], 2, False),
        ([(0, 5, [1]), (4, 6, [1])], 2, False),
        ([(-3, -2, [1])], 2, False),
        ([(0, 5, [])], 2, False),
        ([(0, 5, [1, 1])], 2, False),
        ([(0, 0, [1, 1])], 2, False),
        ([(0, 5, [5])], 2, True),
        ([(0, 5, [-1])], 2, False),
        ([(0, 5, [4])], 1, True),
        ([(0, 5, [4])], 2, False),
    ],
)
def test_acknowledgements_that_make_no_sense(said, version, renews):
    with pytest.raises(InvalidRequest):
        check_acknowledgements([Acknowledgement(*each) for each in said], version, renews)


@pytest.mark.parametrize(
    ("said", "version", "renews"),
    [
        ([], 1, False),
        ([(0, 5, [1]), (5, 6, [0, 3])], 1, False),
        ([(0, 5, [4]), (6, 6, [1])], 2, True),
    ],
)
def test_acknowledgements_that_do(said, version, renews):
    check_acknowledgements([Acknowledgement(*each) for each in said], version, renews)

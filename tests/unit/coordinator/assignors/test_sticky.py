"""The sticky assignor of streams groups: everything assigned, fairly, where it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kavka.coordinator.assignors.sticky import SubtopologySpec, TaskMember, assign_stickily


def member(process="p", active=None, standby=None):
    return TaskMember(
        process,
        {id_: frozenset(each) for id_, each in (active or {}).items()},
        {id_: frozenset(each) for id_, each in (standby or {}).items()},
    )


def again(members, found):
    """The same members, with what they were given."""
    return {id_: TaskMember(one.process_id, *found[id_]) for id_, one in members.items() if id_ in found}


def active(found):
    return {id_: {sub: sorted(each) for sub, each in one.active.items()} for id_, one in found.items()}


def standby(found):
    return {id_: {sub: sorted(each) for sub, each in one.standby.items()} for id_, one in found.items()}


def load(one):
    return sum(map(len, one.active.values())) + sum(map(len, one.standby.values()))


def test_nobody_gets_nothing():
    assert assign_stickily({}, {"0": SubtopologySpec(3, False)}, 0) == {}
    assert active(assign_stickily({"a": member()}, {}, 1)) == {"a": {}}


def test_tasks_are_shared_among_processes_and_their_threads():
    members = {"a1": member("a"), "a2": member("a"), "b1": member("b")}
    assert active(assign_stickily(members, {"0": SubtopologySpec(6, False)}, 0)) == {
        "a1": {"0": [0, 4]}, "a2": {"0": [2, 5]}, "b1": {"0": [1, 3]},
    }  # fmt: skip


def test_tasks_stay_where_they_are():
    members = {"a": member("a", {"0": [2, 3]}), "b": member("b", {"0": [0, 1]})}
    assert active(assign_stickily(members, {"0": SubtopologySpec(4, False)}, 0)) == {
        "a": {"0": [2, 3]},
        "b": {"0": [0, 1]},
    }


def test_a_newcomer_takes_as_few_as_it_must():
    members = {"a": member("a", {"0": [0, 1]}), "b": member("b", {"0": [2, 3]}), "c": member("c")}
    found = active(assign_stickily(members, {"0": SubtopologySpec(4, False)}, 0))
    assert found == {"a": {"0": [0, 1]}, "b": {"0": [2]}, "c": {"0": [3]}}


def test_a_task_goes_to_who_stood_by_for_it():
    members = {"a": member("a", {"0": [0]}), "c": member("c", {"0": [2]}, {"0": [1]})}
    found = active(assign_stickily(members, {"0": SubtopologySpec(3, True)}, 1))
    assert found == {"a": {"0": [0]}, "c": {"0": [1, 2]}}


def test_standby_tasks_are_for_stateful_ones_and_other_processes():
    members = {"a": member("a"), "b": member("b")}
    found = assign_stickily(members, {"0": SubtopologySpec(2, True), "1": SubtopologySpec(2, False)}, 5)
    assert standby(found) == {"a": {"0": [1]}, "b": {"0": [0]}}


def test_who_had_a_task_stands_by_for_it():
    members = {"a": member("a", {"0": [0, 1]}), "b": member("b")}
    found = assign_stickily(members, {"0": SubtopologySpec(2, True)}, 1)
    assert (active(found), standby(found)) == ({"a": {"0": [0]}, "b": {"0": [1]}}, {"a": {"0": [1]}, "b": {"0": [0]}})


SPECS = st.dictionaries(
    st.sampled_from("012"), st.builds(SubtopologySpec, st.integers(1, 6), st.booleans()), min_size=1
)
MEMBERS = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("pqr").map(member), min_size=1)


@given(MEMBERS, SPECS, st.integers(0, 2))
def test_all_active_tasks_are_assigned_once_and_fairly(members, specs, replicas):
    found = assign_stickily(members, specs, replicas)
    given_out = [(sub, each) for one in found.values() for sub, some in one.active.items() for each in some]
    assert sorted(given_out) == sorted((sub, each) for sub, one in specs.items() for each in range(one.tasks))
    processes = {one.process_id for one in members.values()}
    for sub, spec in specs.items():
        for each in range(spec.tasks):
            places = [
                members[id_].process_id
                for id_, one in found.items()
                for some in (one.active, one.standby)
                if each in some.get(sub, ())
            ]
            assert len(places) == len(set(places)) == (1 + min(replicas, len(processes) - 1) if spec.stateful else 1)
    if replicas == 0:
        loads = [load(one) for one in found.values()]
        assert max(loads) - min(loads) <= 1


@given(MEMBERS, SPECS, st.integers(0, 2))
def test_asked_again_it_moves_no_active_task(members, specs, replicas):
    found = assign_stickily(members, specs, replicas)
    assert active(assign_stickily(again(members, found), specs, replicas)) == active(found)


@given(MEMBERS, SPECS, st.data())
def test_when_a_member_goes_the_others_keep_what_they_have(members, specs, data):
    found = assign_stickily(members, specs, 0)
    gone = data.draw(st.sampled_from(sorted(members)))
    rest = {id_: one for id_, one in again(members, found).items() if id_ != gone}
    for id_, one in assign_stickily(rest, specs, 0).items():
        assert all(each <= one.active.get(sub, frozenset()) for sub, each in found[id_].active.items())

"""The states of a share group's partitions: initializing, initialized, deleting.

The share coordinator has them; what it shall do is published once it is decided, and whoever did it says how it went.
Only partitions whose state is initialized are assigned. Topics of another id are other topics: what was deleted and
created again begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kavka.coordinator.share.change import ShareChange
from kavka.coordinator.share.state import NO_STATES, StatePartitionMetadata, StatesByTopic, TopicStates
from kavka.coordinator.topics import Topics
from kavka.model.share import NO_START_OFFSET
from kavka.model.types import Uuid

PartitionSets = Mapping[Uuid, frozenset[int]]


class InitializeStates(NamedTuple):
    """States that the share coordinator shall initialize, from offsets on; then `initialized` or `not_initialized`."""

    group_id: str
    state_epoch: int
    start_offsets: Mapping[Uuid, Mapping[int, int]]

    @property
    def partitions(self) -> PartitionSets:
        """Of which partitions they are."""
        return {topic_id: frozenset(offsets) for topic_id, offsets in self.start_offsets.items()}


class DeleteStates(NamedTuple):
    """States that the share coordinator shall delete."""

    group_id: str
    partitions: PartitionSets


def begin(change: ShareChange, topics: Topics, *, retry: bool) -> InitializeStates | None:
    """Have the states of subscribed partitions initialized that are not; of those under way as well, to try again."""
    states, missing = change.states, {}
    for name in sorted(change.group.topics):
        topic = topics.image.topics.by_name.get(name)
        if topic is None:
            continue
        there = {*_of(states.initialized, topic.id), *(() if retry else _of(states.initializing, topic.id))}
        lacking = frozenset(topic.partitions) - there
        if lacking:
            missing[topic.id] = TopicStates(name, lacking)
    if not missing:
        return None
    change.put_states(_begun(states, missing))
    offsets = {id_: dict.fromkeys(sorted(topic.partitions), NO_START_OFFSET) for id_, topic in missing.items()}
    return InitializeStates(change.group_id, change.group.epoch, offsets)


def initialized(change: ShareChange, topics: Topics, done: PartitionSets) -> None:
    """States were initialized, and may be assigned."""
    states = change.states
    known = {
        id_: TopicStates(name, partitions)
        for id_, partitions in done.items()
        if (name := topics.name_of(id_)) is not None
    }
    if known:
        rest = _without(states.initializing, done)
        change.put_states(states._replace(initializing=rest, initialized=_with(states.initialized, known)))


def not_initialized(change: ShareChange, failed: PartitionSets) -> None:
    """States could not be initialized; the next heartbeat tries again."""
    states = change.states
    rest = _without(states.initializing, failed)
    if rest != states.initializing:
        change.put_states(states._replace(initializing=rest))


def restart(change: ShareChange, topics: Topics, offsets: Mapping[str, Mapping[int, int]]) -> InitializeStates:
    """Have states begin anew at offsets; partitions that are not there are left out."""
    found, begun = {}, {}
    for name, wanted in offsets.items():
        topic = topics.image.topics.by_name.get(name)
        there = {} if topic is None else {each: at for each, at in wanted.items() if each in topic.partitions}
        if topic is not None and there:
            begun[topic.id] = TopicStates(name, frozenset(there))
            found[topic.id] = there
    if begun:
        change.put_states(_begun(change.states, begun))
    return InitializeStates(change.group_id, change.group.epoch, found)


def delete_all(change: ShareChange, topics: Topics) -> DeleteStates | None:
    """Have all states of a group deleted, those as well that were being deleted before; None if there are none."""
    if change.group.states is None:
        return None
    states = change.states
    to_delete = _with(states.initialized, states.initializing)
    again = {
        id_: TopicStates(topic.name, frozenset(topic.partitions))
        for id_ in states.deleting
        if (topic := topics.image.topics.by_id.get(id_)) is not None
    }
    to_delete = _with(to_delete, again)
    change.put_states(NO_STATES._replace(deleting={id_: topic.name for id_, topic in to_delete.items()}))
    return (
        DeleteStates(change.group_id, {id_: topic.partitions for id_, topic in to_delete.items()})
        if to_delete
        else None
    )


def delete_topics(change: ShareChange, topics: Topics, names: Iterable[str]) -> tuple[DeleteStates, list[str]]:
    """Have the states of topics deleted; and the names of those that have none, unless the group never had any."""
    states = change.states
    if change.group.states is None:
        return DeleteStates(change.group_id, {}), []
    rest, deleting = dict(states.initialized), dict(states.deleting)
    to_delete: dict[Uuid, frozenset[int]] = {}
    unknown = []
    for name in names:
        topic = topics.image.topics.by_name.get(name)
        if topic is not None and topic.id in rest:
            to_delete[topic.id] = rest.pop(topic.id).partitions
            deleting[topic.id] = name
        elif topic is not None and topic.id in deleting:
            to_delete.setdefault(topic.id, frozenset(topic.partitions))
        else:
            unknown.append(name)
    change.put_states(states._replace(initialized=rest, deleting=deleting))
    return DeleteStates(change.group_id, to_delete), unknown


def deleted(change: ShareChange, topic_ids: Iterable[Uuid]) -> None:
    """The states of topics are deleted."""
    states = change.states
    gone = frozenset(topic_ids)
    rest = {id_: name for id_, name in states.deleting.items() if id_ not in gone}
    if rest != states.deleting:
        change.put_states(states._replace(deleting=rest))


def forget(change: ShareChange, topic_ids: Iterable[Uuid]) -> None:
    """Topics are gone, and their states with them."""
    states = change.states
    gone = frozenset(topic_ids)
    rest = StatePartitionMetadata(
        {id_: topic for id_, topic in states.initializing.items() if id_ not in gone},
        {id_: topic for id_, topic in states.initialized.items() if id_ not in gone},
        {id_: name for id_, name in states.deleting.items() if id_ not in gone},
    )
    if rest != states:
        change.put_states(rest)


def _begun(states: StatePartitionMetadata, more: StatesByTopic) -> StatePartitionMetadata:
    """More states are being initialized: they are not being deleted any more."""
    deleting = {id_: name for id_, name in states.deleting.items() if id_ not in more}
    return states._replace(initializing=_with(states.initializing, more), deleting=deleting)


def _of(states: StatesByTopic, topic_id: Uuid) -> frozenset[int]:
    found = states.get(topic_id)
    return frozenset() if found is None else found.partitions


def _with(states: StatesByTopic, more: StatesByTopic) -> StatesByTopic:
    return {
        **states,
        **{id_: TopicStates(topic.name, _of(states, id_) | topic.partitions) for id_, topic in more.items()},
    }


def _without(states: StatesByTopic, less: PartitionSets) -> StatesByTopic:
    left = {
        id_: TopicStates(topic.name, topic.partitions - less.get(id_, frozenset())) for id_, topic in states.items()
    }
    return {id_: topic for id_, topic in left.items() if topic.partitions}

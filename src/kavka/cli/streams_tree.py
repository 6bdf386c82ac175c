"""A streams group as a tree: its subtopologies, the topics of each, its tasks and who has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kavka.client.streams_groups import StreamsSubtopology, StreamsTask, StreamsTopology, TaskOwner

Branch = tuple[str, list["Branch"]]


def tree_of(topology: StreamsTopology) -> Iterator[str]:
    """The lines of the tree."""
    yield f"topology  epoch {topology.epoch}"
    yield from _lines([_subtopology(subtopology) for subtopology in topology.subtopologies])


def topology_json(topology: StreamsTopology) -> dict[str, object]:
    """The same for scripts."""
    return {
        "epoch": topology.epoch,
        "subtopologies": [
            {
                "subtopology": subtopology.id,
                "source_topics": list(subtopology.source_topics),
                "repartition_source_topics": subtopology.repartition_source_topics,
                "repartition_sink_topics": list(subtopology.repartition_sink_topics),
                "changelog_topics": subtopology.changelog_topics,
                "tasks": [
                    {
                        "task": f"{subtopology.id}_{task.partition}",
                        "active": None if task.active is None else task.active.member,
                        "next": None if task.next is None else task.next.member,
                        "standby": [owner.member for owner in task.standby],
                    }
                    for task in subtopology.tasks
                ],
            }
            for subtopology in topology.subtopologies
        ],
    }


def _subtopology(subtopology: StreamsSubtopology) -> Branch:
    topics: list[Branch] = [(f"reads {name}", []) for name in subtopology.source_topics]
    topics += _internal("reads", "repartition", subtopology.repartition_source_topics)
    topics += [(f"writes {name}  repartition", []) for name in subtopology.repartition_sink_topics]
    topics += _internal("keeps", "changelog", subtopology.changelog_topics)
    tasks: list[Branch] = [_task(subtopology.id, task) for task in subtopology.tasks]
    return f"subtopology {subtopology.id}", [*topics, *tasks]


def _internal(verb: str, kind: str, topics: Mapping[str, int]) -> list[Branch]:
    return [
        (f"{verb} {name}  {kind}" + (f", {count} partitions" if count else ""), []) for name, count in topics.items()
    ]


def _task(id_: str, task: StreamsTask) -> Branch:
    owners = [("active", task.active)] if task.active is not None else []
    owners += [("next", task.next)] if task.next is not None else []
    rows = [*owners, *(("standby", owner) for owner in task.standby)]
    return f"task {id_}_{task.partition}", [(f"{role} {_owner(owner)}", []) for role, owner in rows]


def _owner(owner: TaskOwner) -> str:
    return f"{owner.member}  process {owner.process_id}  client {owner.client_id}"


def _lines(branches: list[Branch], before: str = "") -> Iterator[str]:
    for at, (text, inner) in enumerate(branches):
        is_last = at == len(branches) - 1
        yield f"{before}{'└─ ' if is_last else '├─ '}{text}"
        yield from _lines(inner, before + ("   " if is_last else "│  "))

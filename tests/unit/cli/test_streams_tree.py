"""A streams group as a tree."""

from __future__ import annotations

from kavka.cli.streams_tree import topology_json, tree_of
from kavka.client.streams_groups import StreamsTopology, TaskOwner, partitions_of, topology_of
from kavka.model.types import TopicPartition
from kavka.protocol.schemas import streams_group_describe as schema


def info(name: str, partitions: int) -> schema.TopicInfo:
    return schema.TopicInfo(name=name, partitions=partitions, replication_factor=0, topic_configs=[])


def tasks(**parts: list[int]) -> list[schema.TaskIds]:
    return [schema.TaskIds(subtopology_id=id_[1:], partitions=each) for id_, each in parts.items()]


def member(
    id_: str,
    active: list[schema.TaskIds],
    standby: list[schema.TaskIds],
    target: list[schema.TaskIds] | None = None,
) -> schema.Member:
    has = schema.Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=[])
    shall_have = schema.Assignment(
        active_tasks=active if target is None else target, standby_tasks=standby, warmup_tasks=[]
    )
    return schema.Member(
        member_id=id_,
        member_epoch=3,
        client_id="app",
        client_host="/h",
        topology_epoch=0,
        process_id=f"p{id_}",
        client_tags=[],
        task_offsets=[],
        task_end_offsets=[],
        assignment=has,
        target_assignment=shall_have,
        is_classic=False,
    )


def group(topology: schema.Topology | None, *members: schema.Member) -> schema.DescribedGroup:
    return schema.DescribedGroup(
        error_code=0,
        group_id="g",
        group_state="Stable",
        group_epoch=3,
        assignment_epoch=3,
        topology=topology,
        members=list(members) or [member("1", tasks(_0=[0], _1=[0]), []), member("2", [], tasks(_1=[0]))],
    )


PARTS = [
    schema.Subtopology(
        subtopology_id="0",
        source_topics=["words"],
        repartition_sink_topics=["by-word"],
        state_changelog_topics=[],
        repartition_source_topics=[],
    ),
    schema.Subtopology(
        subtopology_id="1",
        source_topics=[],
        repartition_sink_topics=[],
        state_changelog_topics=[info("counts", 0)],
        repartition_source_topics=[info("by-word", 1)],
    ),
]
WHOLE = group(schema.Topology(epoch=7, subtopologies=PARTS))


def topology() -> StreamsTopology:
    found = topology_of(WHOLE)
    assert found is not None
    return found


def test_topics_and_tasks_hang_from_their_subtopology() -> None:
    assert list(tree_of(topology())) == [
        "topology  epoch 7",
        "├─ subtopology 0",
        "│  ├─ reads words",
        "│  ├─ writes by-word  repartition",
        "│  └─ task 0_0",
        "│     └─ active 1  process p1  client app",
        "└─ subtopology 1",
        "   ├─ reads by-word  repartition, 1 partitions",
        "   ├─ keeps counts  changelog",
        "   └─ task 1_0",
        "      ├─ active 1  process p1  client app",
        "      └─ standby 2  process p2  client app",
    ]


def test_scripts_get_the_same() -> None:
    found = topology_json(topology())
    assert found["epoch"] == 7
    assert found["subtopologies"] == [
        {
            "subtopology": "0",
            "source_topics": ["words"],
            "repartition_source_topics": {},
            "repartition_sink_topics": ["by-word"],
            "changelog_topics": {},
            "tasks": [{"task": "0_0", "active": "1", "next": None, "standby": []}],
        },
        {
            "subtopology": "1",
            "source_topics": [],
            "repartition_source_topics": {"by-word": 1},
            "repartition_sink_topics": [],
            "changelog_topics": {"counts": 0},
            "tasks": [{"task": "1_0", "active": "1", "next": None, "standby": ["2"]}],
        },
    ]


def test_a_task_that_moves_is_shown_with_who_shall_have_it() -> None:
    members = [
        member("1", tasks(_0=[0, 1]), [], target=tasks(_0=[0])),
        member("2", [], [], target=tasks(_0=[1, 2])),
    ]
    found = topology_of(group(schema.Topology(epoch=0, subtopologies=PARTS[:1]), *members))
    assert found is not None
    assert list(tree_of(found))[4:] == [
        "   ├─ task 0_0",
        "   │  └─ active 1  process p1  client app",
        "   ├─ task 0_1",
        "   │  ├─ active 1  process p1  client app",
        "   │  └─ next 2  process p2  client app",
        "   └─ task 0_2",
        "      └─ next 2  process p2  client app",
    ]


def test_a_member_reads_the_sources_of_its_tasks() -> None:
    assert partitions_of(WHOLE.members[0], topology()) == {TopicPartition("words", 0), TopicPartition("by-word", 0)}
    assert topology().subtopologies[1].tasks[0].standby == (TaskOwner("2", "p2", "app"),)


def test_a_group_without_a_topology_has_no_tree() -> None:
    bare = group(None)
    assert topology_of(bare) is None
    assert partitions_of(bare.members[0], None) == frozenset()

"""Whatever was committed survives any way of stopping."""

from __future__ import annotations

import asyncio
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.controller.configs import Op
from kavka.controller.topics import NewPartitions
from kavka.metadata.image import ConfigResource

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.sampled_from(["a", "b", "a.b", "c"]), st.integers(1, 3)),
        st.tuples(st.just("delete"), st.sampled_from(["a", "b", "a.b", "c"])),
        st.tuples(st.just("grow"), st.sampled_from(["a", "b"]), st.integers(2, 5)),
        st.tuples(st.just("config"), st.sampled_from(["a", "b"]), st.sampled_from(["5", None])),
        st.tuples(st.just("snapshot")),
        st.tuples(st.just("stop")),
        st.tuples(st.just("kill"), st.binary(max_size=30)),
    ),
    min_size=1,
    max_size=12,
)


async def take(loop, creating, step):
    match step:
        case ("create", name, partitions):
            await creating(loop, name, partitions=partitions)
        case ("delete", name):
            ids = [topic.id for topic in [loop.image.topics.by_name.get(name)] if topic]
            await loop.submit(lambda machine, _: machine.delete_topics(ids))
        case ("grow", name, count):
            await loop.submit(lambda machine, _: machine.create_partitions([NewPartitions(name, count)]))
        case ("config", name, value):
            change = {ConfigResource(2, name): {"retention.ms": (Op.DELETE if value is None else Op.SET, value)}}
            await loop.submit(lambda machine, _: machine.incremental_alter_configs(change))
        case ("snapshot",):
            with ThreadPoolExecutor(1) as threads:
                await loop.snapshot(threads)


@settings(deadline=None, max_examples=25)
@given(STEPS)
def test_every_life_begins_where_the_last_one_ended(nodes, creating, steps):
    async def scenario(node):
        remembered = None
        lives, ends = [[]], []
        for step in steps:
            if step[0] in ("stop", "kill"):
                ends.append(step)
                lives.append([])
            else:
                lives[-1].append(step)
        for number, life in enumerate(lives):
            end = ends[number] if number < len(ends) else ("stop",)
            was_clean = number == 0 or ends[number - 1] == ("stop",)
            async with node.running(
                register=number == 0, clean=was_clean and number > 0, close=end[0] == "stop"
            ) as loop:
                if remembered is not None:
                    assert replace(loop.image, offset=0, epoch=0) == replace(remembered, offset=0, epoch=0)
                    assert loop.image.epoch == remembered.epoch + 1
                for step in life:
                    await take(loop, creating, step)
                remembered = loop.image
            if end[0] == "kill":
                tear(node, end[1])

    with tempfile.TemporaryDirectory() as root:
        asyncio.run(scenario(nodes(Path(root))))


def tear(node, garbage):
    """What a crash may leave after the last forced byte."""
    newest = max(name for name in os.listdir(node.log_dir) if name.endswith(".log"))
    with open(f"{node.log_dir}/{newest}", "ab") as file:
        file.write(garbage)

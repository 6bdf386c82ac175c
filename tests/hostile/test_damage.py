"""Every file of a data directory, damaged in every way: a node refuses with words, repairs, or takes out of service.

It never serves less than it had acknowledged as if nothing had happened.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from pathlib import Path

import pytest

from hostile.damage import DISKS, KINDS, SHARING, WHOLE, Damage, Outcome, files_of, prepare, start
from scale import FULL, rounds

FLIPS = int(os.environ.get("KAVKA_ROUNDS") or rounds(full=100, ci=1))
SHARE = 1 if FULL else 15
"""One in so many of the damages of each file is tried in a short run, another one in each."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A data directory after a clean stop, and an older copy of it."""
    return prepare(tmp_path_factory.mktemp("sound"))


COORDINATED = {"__consumer_offsets-0": "g", "__transaction_state-0": "t", "__share_group_state-0": SHARING}
"""Whose state is in which log."""


def is_honest(damage: Damage, outcome: Outcome) -> bool:
    """Whether all is there, or clients are refused what is not, and the log names what was damaged."""
    if outcome.state == WHOLE:
        return True
    words, state = outcome.refused or outcome.said, outcome.state
    disk, *inner = damage.file.split("/")
    partition = inner[0] if len(inner) > 1 else ""
    if state is None:  # the node did not start
        return (partition or f"/{disk}") in words
    found = {f"{topic}-0" for topic, why in state.refused.items() if "CorruptMessage" in why}
    if partition not in found and (partition or disk) not in words:
        return False
    if damage.kind == "older" and "is an older copy" in words:
        return True  # it cannot be told from what compaction leaves
    served = {topic: records for topic, records in state.records.items() if topic not in state.refused}
    if any(records != WHOLE.records[topic] for topic, records in served.items()):
        return False
    # A batch of a coordinator's log that is damaged is passed over, and told: what is beside it is served.
    passed_over = COORDINATED.get(partition) if "is damaged" in words else None
    places = {"g": state.committed, "t": state.epoch, SHARING: state.shared}
    whole = {"g": WHOLE.committed, "t": WHOLE.epoch, SHARING: WHOLE.shared}
    return all(key in state.refused or key == passed_over or place == whole[key] for key, place in places.items())


@pytest.mark.timeout(300 + 150 * FLIPS)
def test_a_damaged_directory_is_never_served_as_if_it_were_whole(sound: tuple[Path, Path], tmp_path: Path) -> None:
    seed = int(os.environ.get("KAVKA_SEED") or int.from_bytes(os.urandom(4)))
    sys.stdout.write(f"KAVKA_SEED={seed}\n")
    rng = random.Random(seed)
    whole, older = sound
    every = [Damage(name, kind) for name in files_of(whole) for kind in KINDS]
    every += [Damage(name, "flipped") for name in files_of(whole) for _ in range(FLIPS - 1)]
    always = {
        Damage(newest_log(whole, partition), kind)
        for partition in ("__cluster_metadata-0", "first-0")
        for kind in ("cut", "emptied", "older", "missing")
    }
    chosen = every if FULL else [damage for damage in every if rng.randrange(SHARE) == 0 or damage in always]
    dishonest = []
    for number, damage in enumerate(chosen):
        directory = tmp_path / str(number)
        shutil.copytree(whole, directory)
        if damage.do(directory, older, rng):
            outcome = start(directory)
            verdict = "refused" if outcome.refused else "whole" if outcome.state == WHOLE else "offline"
            honest = is_honest(damage, outcome)
            words = (outcome.refused or outcome.said)[:150].replace(str(directory), "")
            sys.stdout.write(f"{damage.file:62} {damage.kind:8} {verdict if honest else 'SILENT':8} {words}\n")
            if not honest:
                dishonest.append((damage, outcome))
        shutil.rmtree(directory)
    assert not dishonest


def newest_log(whole: Path, partition: str) -> str:
    """The file that takes the writes of a partition of the first disk."""
    return str(max((whole / DISKS[0] / partition).glob("*.log")).relative_to(whole))


@pytest.mark.parametrize("partition", ["__cluster_metadata-0", "first-0"])
def test_what_is_missing_is_given_up_only_when_told_to(
    sound: tuple[Path, Path], tmp_path: Path, partition: str
) -> None:
    whole, older = sound
    name = newest_log(whole, partition)
    directory = tmp_path / "damaged"
    shutil.copytree(whole, directory)
    assert Damage(name, "older").do(directory, older, random.Random(1))
    for _ in range(2):  # a stop in between forgets nothing
        found = start(directory)
        assert "--accept-loss" in (found.refused or found.said)
    given_up = start(directory, accept_loss=True)
    assert given_up.refused is None
    again = start(directory)
    assert again.refused is None
    assert again.state == given_up.state

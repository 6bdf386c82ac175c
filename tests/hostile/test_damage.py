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

from hostile.damage import COMMITTED, KINDS, WHOLE, Damage, Outcome, files_of, prepare, start
from scale import FULL, rounds

FLIPS = rounds(full=100, ci=1)
SHARE = 1 if FULL else 6
"""One in so many of the damages of each file is tried in a short run, another one in each."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A data directory after a clean stop, and an older copy of it."""
    return prepare(tmp_path_factory.mktemp("sound"))


OFFSETS = "__consumer_offsets-0"


def is_honest(damage: Damage, outcome: Outcome) -> bool:
    """Whether all is there, or clients are refused what is not, and the log names what was damaged."""
    if outcome.state == WHOLE:
        return True
    words, state, partition = outcome.refused or outcome.said, outcome.state, damage.file.rpartition("/")[0]
    if state is None:  # the node did not start
        return (partition or damage.file) in words
    found = {f"{topic}-0" for topic, why in state.refused.items() if "CorruptMessage" in why}
    if partition not in found and partition not in words:
        return False
    served = {topic: records for topic, records in state.records.items() if topic not in state.refused}
    if any(records != WHOLE.records[topic] for topic, records in served.items()):
        return False
    # A batch of a coordinator's log that is damaged is passed over, and told: the groups beside it are served.
    passed_over = damage.file.startswith(OFFSETS) and "is damaged" in words
    return "g" in state.refused or state.committed == COMMITTED or passed_over


def test_a_damaged_directory_is_never_served_as_if_it_were_whole(sound: tuple[Path, Path], tmp_path: Path) -> None:
    seed = int(os.environ.get("KAVKA_SEED") or int.from_bytes(os.urandom(4)))
    sys.stdout.write(f"KAVKA_SEED={seed}\n")
    rng = random.Random(seed)
    whole, older = sound
    every = [Damage(name, kind) for name in files_of(whole) for kind in KINDS]
    every += [Damage(name, "flipped") for name in files_of(whole) for _ in range(FLIPS - 1)]
    chosen = every if FULL else [damage for damage in every if rng.randrange(SHARE) == 0 or damage in ALWAYS]
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


METADATA = "__cluster_metadata-0/00000000000000000000.log"
DATA = "first-0/00000000000000000000.log"
ALWAYS = {Damage(name, kind) for name in (METADATA, DATA) for kind in ("cut", "emptied", "older", "missing")}


@pytest.mark.parametrize("name", [METADATA, DATA])
def test_what_is_missing_is_given_up_only_when_told_to(sound: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    whole, older = sound
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

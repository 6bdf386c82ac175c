"""Formatting directories as Kafka's own tool does, and refusing those that are not ours."""

from __future__ import annotations

import os

import pytest

from kavka.metadata.features import default_levels
from kavka.model.types import Endpoint, Uuid
from kavka.quorum.format import (
    FormatError,
    check_dirs,
    feature_levels,
    format_dirs,
    open_standalone_dirs,
    parse_features,
    parse_initial_controllers,
    parse_release,
    random_id,
    read_bootstrap,
)
from kavka.quorum.snapshots import read_snapshot
from kavka.quorum.voters import ControlState, ReplicaKey, Voter
from kavka.storage.dirs import read_meta_properties
from kavka.storage.disk import RealDisk

CLUSTER = "XtzFyRoARCCFvqzNMVkX_Q"
DISK = RealDisk()
NOW = 1_794_787_199_000


@pytest.fixture
def first_dir(tmp_path):
    return str(tmp_path / "one")


@pytest.fixture
def second_dir(tmp_path):
    return str(tmp_path / "two")


def formatted(*dirs, **more):
    return format_dirs(DISK, dirs, dirs[0], **{"cluster_id": CLUSTER, "node_id": 1, "now_ms": NOW, **more})


def test_each_directory_gets_its_own_id_and_the_same_owner(first_dir, second_dir):
    node = formatted(first_dir, second_dir)
    for path in (first_dir, second_dir):
        meta = read_meta_properties(DISK, path)
        assert (meta.cluster_id, meta.node_id, meta.directory_id) == (CLUSTER, 1, node.directory_ids[path])
    assert len(set(node.directory_ids.values())) == 2
    assert node.metadata_directory_id == node.directory_ids[first_dir]
    assert check_dirs(DISK, [first_dir, second_dir], first_dir, node_id=1) == node


def test_the_metadata_directory_knows_its_voter_and_the_others_have_no_metadata_log(first_dir, second_dir):
    controller = Endpoint("CONTROLLER", "127.0.0.1", 29093, "")
    node = formatted(first_dir, second_dir, controller=controller)
    snapshot = read_snapshot(DISK, f"{first_dir}/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")
    voter = Voter(ReplicaKey(1, node.metadata_directory_id), (controller,))
    assert snapshot.control == ControlState(kraft_version=1, voters=(voter,))
    assert snapshot.records == []
    assert not os.path.exists(f"{second_dir}/__cluster_metadata-0")


def test_the_bootstrap_file_has_the_levels_of_the_release(first_dir):
    formatted(first_dir)
    records = read_bootstrap(DISK, first_dir)
    assert {record.name: record.feature_level for record in records} == default_levels()
    assert records[0].name == "metadata.version"


# What `kafka-storage format --standalone` of Kafka 4.3.1 wrote, with these ids and times.
KAFKA_BOOTSTRAP = bytes.fromhex(
    "00000000000000000000004700000000027c78fcf5002000000000000001a1e1a71098000001a1e1a71098ffffffffffffffffffffffffffff"
    "000000012a0000000800000003160000000000000000000000000000000000000001000000f100000000023ed8dec7000000000005000001a1e1"
    "a710ad000001a1e1a710adffffffffffffffffffffffffffff000000063a000000012e010c00116d657461646174612e76657273696f6e001e00"
    "005a000002014e010c0021656c696769626c652e6c65616465722e7265706c696361732e76657273696f6e00010000340000040128010c000e67"
    "726f75702e76657273696f6e00010000340000060128010c000e73686172652e76657273696f6e0001000038000008012c010c00107374726561"
    "6d732e76657273696f6e0001000040000a"
)


def test_the_files_are_those_of_kafkas_format_tool_but_for_times(first_dir):
    formatted(first_dir, controller=Endpoint("CONTROLLER", "127.0.0.1", 29093, ""))
    with open(f"{first_dir}/bootstrap.checkpoint", "rb") as file:
        ours = file.read()
    assert len(ours) == 411
    assert os.path.getsize(f"{first_dir}/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint") == 241
    # after the first record's header, which has times and a CRC: the header record, and the names and levels
    assert ours[57:83] == KAFKA_BOOTSTRAP[57:83]
    for name in (b"metadata.version\x00\x1e", b"transaction.version\x00\x02", b"group.version\x00\x01"):
        assert name in ours


def test_formatting_again_is_refused_unless_asked_to_pass_over(first_dir, second_dir):
    first = formatted(first_dir)
    with pytest.raises(FormatError, match="formatted already"):
        formatted(first_dir)
    again = formatted(first_dir, second_dir, ignore_formatted=True)
    assert again.directory_ids[first_dir] == first.directory_ids[first_dir]


@pytest.mark.parametrize(
    ("changes", "why"), [({"cluster_id": str(random_id())}, "cluster"), ({"node_id": 2}, "node 1")]
)
def test_a_directory_of_another_owner_is_refused(first_dir, changes, why):
    formatted(first_dir)
    with pytest.raises(FormatError, match=why):
        formatted(first_dir, ignore_formatted=True, **changes)


def test_a_directory_with_foreign_files_is_refused(first_dir):
    os.makedirs(first_dir)
    with open(f"{first_dir}/holiday.jpg", "w"):
        pass
    with pytest.raises(FormatError, match=r"holiday\.jpg"):
        formatted(first_dir)
    assert os.listdir(first_dir) == ["holiday.jpg"]


def test_a_metadata_log_without_meta_properties_is_not_overwritten(first_dir):
    formatted(first_dir)
    os.unlink(f"{first_dir}/meta.properties")
    with open(f"{first_dir}/__cluster_metadata-0/00000000000000000000.log", "w"):
        pass
    with pytest.raises(FormatError, match="not empty"):
        formatted(first_dir)


def test_formatting_that_was_cut_off_can_be_done_over(first_dir):
    formatted(first_dir)
    os.unlink(f"{first_dir}/meta.properties")
    formatted(first_dir)
    assert check_dirs(DISK, [first_dir], first_dir, node_id=1)


def test_a_file_in_place_of_a_directory_is_refused(first_dir):
    with open(first_dir, "w"):
        pass
    with pytest.raises(FormatError):
        formatted(first_dir)


def test_an_unwritable_place_is_refused_in_one_line():
    with pytest.raises(FormatError, match="cannot format /proc/kavka") as caught:
        formatted("/proc/kavka")  # where not even root makes directories
    assert "\n" not in str(caught.value)


def test_a_cluster_id_has_its_form(first_dir):
    with pytest.raises(FormatError, match="22"):
        formatted(first_dir, cluster_id="my-cluster")


def test_nothing_formatted_is_none_and_half_formatted_is_an_error(first_dir, second_dir):
    assert check_dirs(DISK, [first_dir, second_dir], first_dir, node_id=1) is None
    formatted(first_dir)
    with pytest.raises(FormatError, match="not formatted"):
        check_dirs(DISK, [first_dir, second_dir], first_dir, node_id=1)
    with pytest.raises(FormatError, match="metadata log"):
        check_dirs(DISK, [first_dir, second_dir], second_dir, node_id=1)


def test_the_metadata_log_must_be_where_it_is_configured(first_dir, second_dir):
    formatted(first_dir, second_dir)
    with pytest.raises(FormatError, match="has a metadata log"):
        check_dirs(DISK, [first_dir, second_dir], second_dir, node_id=1)


def test_another_nodes_directory_is_not_opened(first_dir):
    formatted(first_dir)
    with pytest.raises(FormatError, match="node 1"):
        check_dirs(DISK, [first_dir], first_dir, node_id=2)


def test_a_copied_directory_is_noticed(first_dir, second_dir):
    formatted(first_dir, second_dir)
    with open(f"{first_dir}/meta.properties") as source, open(f"{second_dir}/meta.properties", "w") as target:
        target.write(source.read())
    with pytest.raises(FormatError, match="copy"):
        check_dirs(DISK, [first_dir, second_dir], first_dir, node_id=1)


def test_a_directory_from_before_directory_ids_gets_one(first_dir):
    formatted(first_dir)
    with open(f"{first_dir}/meta.properties", "w") as file:
        file.write(f"version=1\ncluster.id={CLUSTER}\nnode.id=1\n")
    first = check_dirs(DISK, [first_dir], first_dir, node_id=1)
    assert check_dirs(DISK, [first_dir], first_dir, node_id=1) == first


def test_a_standalone_node_formats_empty_directories_by_itself_and_only_once(first_dir):
    first = open_standalone_dirs(DISK, [first_dir], first_dir, node_id=1, now_ms=NOW)
    assert Uuid.parse(first.cluster_id)
    assert open_standalone_dirs(DISK, [first_dir], first_dir, node_id=1, now_ms=NOW) == first


def test_ids_are_neither_reserved_nor_like_an_option():
    drawn = iter([bytes(16), b"\xf8" + bytes(15), b"\x01" * 16])
    assert str(random_id(lambda size: next(drawn)))[0] != "-"
    assert len({random_id() for _ in range(100)}) == 100


DIRECTORY = "AAAAAAAAQACAAAAAAAAAAQ"


def test_initial_controllers_are_read_as_kafka_writes_them():
    voters = parse_initial_controllers(f"1@one.example:9093:{DIRECTORY}, 2@[::1]:9094:{DIRECTORY}", "CONTROLLER")
    id_ = Uuid.parse(DIRECTORY)
    assert voters == (
        Voter(ReplicaKey(1, id_), (Endpoint("CONTROLLER", "one.example", 9093, ""),)),
        Voter(ReplicaKey(2, id_), (Endpoint("CONTROLLER", "::1", 9094, ""),)),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        f"@h:1:{DIRECTORY}",
        f"x@h:1:{DIRECTORY}",
        f"1@:1:{DIRECTORY}",
        f"1@h:70000:{DIRECTORY}",
        "1@h:1:short",
        f"1@a:b:1:{DIRECTORY}",
        f"1@h:1:{DIRECTORY},1@h:2:{DIRECTORY}",
        "1@h:1:AAAAAAAAAAAAAAAAAAAAAQ",
    ],
)
def test_initial_controllers_of_another_form_are_refused(text):
    with pytest.raises(FormatError):
        parse_initial_controllers(text, "CONTROLLER")


def test_an_initial_controller_gets_the_directory_id_it_was_promised(first_dir):
    voters = parse_initial_controllers(f"1@h:1:{DIRECTORY},2@h:2:{random_id()}", "CONTROLLER")
    node = formatted(first_dir, initial_controllers=voters)
    assert str(node.metadata_directory_id) == DIRECTORY
    snapshot = read_snapshot(DISK, f"{first_dir}/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")
    assert snapshot.control == ControlState(kraft_version=1, voters=voters)


def test_a_node_that_is_no_initial_controller_knows_them_all_the_same(first_dir):
    voters = parse_initial_controllers(f"1@h:1:{DIRECTORY},2@h:2:{random_id()}", "CONTROLLER")
    node = formatted(first_dir, node_id=3, initial_controllers=voters)
    assert str(node.metadata_directory_id) != DIRECTORY
    snapshot = read_snapshot(DISK, f"{first_dir}/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")
    assert snapshot.control.voters == voters


def test_without_initial_controllers_there_is_no_snapshot(first_dir):
    formatted(first_dir, controller=None)
    assert not os.path.exists(f"{first_dir}/__cluster_metadata-0")
    assert read_bootstrap(DISK, first_dir)


@pytest.mark.parametrize(("release", "level"), [("4.3", 30), ("4.3-IV0", 30), ("3.7", 19), ("3.3-IV3", 7)])
def test_a_release_has_its_metadata_version(release, level):
    assert parse_release(release) == level


@pytest.mark.parametrize("release", ["", "4", "9.9", "4.3-IV9", "4.3.1"])
def test_an_unknown_release_is_refused(release):
    with pytest.raises(FormatError, match="known are"):
        parse_release(release)


def test_features_differ_from_the_release_where_it_is_asked(first_dir):
    levels = feature_levels("4.2", parse_features(["group.version=0", "transaction.version=1"]), dynamic=True)
    formatted(first_dir, levels=levels)
    written = {record.name: record.feature_level for record in read_bootstrap(DISK, first_dir)}
    assert written["metadata.version"] == 29
    assert written["transaction.version"] == 1
    assert "group.version" not in written
    assert "kraft.version" not in written


@pytest.mark.parametrize(
    ("release", "features", "dynamic", "why"),
    [
        ("4.3", {"metadata.version": 30}, True, "not both"),
        (None, {"metadata.version": 99}, True, "no metadata.version 99"),
        (None, {"no.such": 1}, True, "no feature no.such"),
        (None, {"group.version": 9}, True, "latest is 1"),
        (None, {"kraft.version": 0}, True, "kraft.version 1, not 0"),
        (None, {"kraft.version": 1}, False, "kraft.version 0, not 1"),
        ("3.3", {"eligible.leader.replicas.version": 1}, True, "needs metadata.version"),
    ],
)
def test_levels_that_cannot_be_are_refused(release, features, dynamic, why):
    with pytest.raises(FormatError, match=why):
        feature_levels(release, features, dynamic=dynamic)


@pytest.mark.parametrize("text", ["group.version", "group.version=x", "=", "group.version=-1"])
def test_a_feature_option_has_its_form(text):
    with pytest.raises(FormatError, match="NAME=LEVEL"):
        parse_features([text])


def test_directories_of_two_clusters_are_both_named_for_either_may_be_damaged(first_dir, second_dir):
    formatted(first_dir, second_dir)
    path = f"{first_dir}/meta.properties"
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text.replace(CLUSTER, str(random_id())))
    with pytest.raises(FormatError) as refused:
        check_dirs(DISK, [first_dir, second_dir], first_dir, node_id=1)
    assert first_dir in str(refused.value)
    assert second_dir in str(refused.value)

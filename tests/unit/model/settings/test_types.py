from __future__ import annotations

import pytest

from kavka.model.settings import (
    AUTO_CREATE_TOPICS_ENABLE,
    CONTROLLER_QUORUM_BOOTSTRAP_SERVERS,
    CONTROLLER_QUORUM_VOTERS,
    LOG_CLEANER_IO_MAX_BYTES_PER_SECOND,
    LOG_DIRS,
    LOG_SEGMENT_BYTES,
    OFFSETS_TOPIC_REPLICATION_FACTOR,
    SSL_KEYSTORE_PASSWORD,
    TOPIC_CLEANUP_POLICY,
    TOPIC_COMPRESSION_GZIP_LEVEL,
    TOPIC_LEADER_REPLICATION_THROTTLED_REPLICAS,
    TOPIC_MIN_CLEANABLE_DIRTY_RATIO,
    TOPIC_RETENTION_MS,
    SettingError,
)
from kavka.model.settings.group import SHARE_AUTO_OFFSET_RESET, reset_duration_ms
from kavka.model.settings.types import DOUBLE


def test_blanks_around_a_value_do_not_count() -> None:
    assert LOG_SEGMENT_BYTES.parse(" \t2097152\n") == 2097152
    assert LOG_DIRS.parse(" /a , /b ") == ("/a", "/b")


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TRUE", True), ("False", False)])
def test_a_boolean_is_true_or_false_in_any_case(text: str, value: bool) -> None:
    assert AUTO_CREATE_TOPICS_ENABLE.parse(text) is value


@pytest.mark.parametrize("text", ["yes", "1", "", "truth"])
def test_nothing_else_is_a_boolean(text: str) -> None:
    with pytest.raises(SettingError, match=r"auto.create.topics.enable: .* is not true or false"):
        AUTO_CREATE_TOPICS_ENABLE.parse(text)


@pytest.mark.parametrize("text", ["1_000_000_0", "1 048 576", "1e9", "0x100000", "1048576.0", "", "-", "2147483648"])
def test_whole_numbers_are_plain_digits_of_the_right_size(text: str) -> None:
    with pytest.raises(SettingError, match=r"log.segment.bytes: .* is not a whole number of 32 bits"):
        LOG_SEGMENT_BYTES.parse(text)


def test_a_sign_is_allowed_and_ranges_end_at_the_type() -> None:
    assert TOPIC_RETENTION_MS.parse("+5") == 5
    assert TOPIC_RETENTION_MS.parse("9223372036854775807") == 2**63 - 1
    with pytest.raises(SettingError):
        TOPIC_RETENTION_MS.parse("9223372036854775808")
    with pytest.raises(SettingError, match="16 bits"):
        OFFSETS_TOPIC_REPLICATION_FACTOR.parse("32768")


def test_an_enormous_number_is_refused_not_computed() -> None:
    with pytest.raises(SettingError):
        TOPIC_RETENTION_MS.parse("9" * 100_000)


def test_a_value_out_of_range_is_refused_in_one_line_that_says_what_is_allowed() -> None:
    with pytest.raises(SettingError) as caught:
        LOG_SEGMENT_BYTES.parse("10")
    assert str(caught.value) == "log.segment.bytes: '10' is not allowed, it must be at least 1048576"


@pytest.mark.parametrize("text", ["NaN", "1_0", "", "half", "1,5", "inf"])
def test_what_is_not_a_number_is_no_double(text: str) -> None:
    with pytest.raises(SettingError, match="is not a number"):
        TOPIC_MIN_CLEANABLE_DIRTY_RATIO.parse(text)


def test_doubles_are_written_as_java_writes_them() -> None:
    assert LOG_CLEANER_IO_MAX_BYTES_PER_SECOND.text(1.7976931348623157e308) == "1.7976931348623157E308"
    texts = {0.5: "0.5", 1e7: "1.0E7", 123456789.0: "1.23456789E8", 0.0001: "1.0E-4", 1.0: "1.0", 0.0: "0.0"}
    assert {value: DOUBLE.text(value) for value in texts} == texts
    assert DOUBLE.text(-2.5e-9) == "-2.5E-9"
    assert DOUBLE.text(float("-inf")) == "-Infinity"
    assert DOUBLE.parse("1.5f") == 1.5


def test_cleanup_policies_may_be_empty_and_count_once() -> None:
    assert TOPIC_CLEANUP_POLICY.parse("compact,delete,compact") == ("compact", "delete")
    assert TOPIC_CLEANUP_POLICY.parse("") == ()
    for text in ("compact,", "Compact", "none", "delete,,compact"):
        with pytest.raises(SettingError, match=r"cleanup.policy"):
            TOPIC_CLEANUP_POLICY.parse(text)


@pytest.mark.parametrize("text", ["", "*", "0:1", "0:101,1:102", " 1:2 , 3:4 "])
def test_throttled_replicas_are_pairs_or_a_star(text: str) -> None:
    assert TOPIC_LEADER_REPLICATION_THROTTLED_REPLICAS.parse(text) is not None


@pytest.mark.parametrize("text", ["1", "a:b", "1:2:3", "*,1:2", "-1:2"])
def test_other_throttled_replicas_are_refused(text: str) -> None:
    with pytest.raises(SettingError, match="a list of partition:broker"):
        TOPIC_LEADER_REPLICATION_THROTTLED_REPLICAS.parse(text)


def test_a_gzip_level_may_be_minus_one_but_not_zero() -> None:
    assert TOPIC_COMPRESSION_GZIP_LEVEL.parse("-1") == -1
    with pytest.raises(SettingError):
        TOPIC_COMPRESSION_GZIP_LEVEL.parse("0")


def test_voters_are_numbered_addresses() -> None:
    assert CONTROLLER_QUORUM_VOTERS.parse("1@a:9093, 2@[::1]:9094") == ("1@a:9093", "2@[::1]:9094")
    for text in ("a:9093", "x@a:9093", "1@a", "1@:9093", "1@a:99999"):
        with pytest.raises(SettingError, match="a list of id@host:port"):
            CONTROLLER_QUORUM_VOTERS.parse(text)


def test_bootstrap_servers_are_plain_addresses() -> None:
    assert CONTROLLER_QUORUM_BOOTSTRAP_SERVERS.parse("a:1,[::1]:2") == ("a:1", "[::1]:2")
    for text in ("1@a:9093", "a b:1", "a"):
        with pytest.raises(SettingError, match="a list of host:port"):
            CONTROLLER_QUORUM_BOOTSTRAP_SERVERS.parse(text)


def test_share_groups_start_at_an_end_or_a_duration() -> None:
    for text in ("latest", "earliest", "by_duration:PT1H30M", "by_duration:P2D", "by_duration:PT0.5S"):
        assert SHARE_AUTO_OFFSET_RESET.parse(text) == text
    for text in ("none", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:1h"):
        with pytest.raises(SettingError):
            SHARE_AUTO_OFFSET_RESET.parse(text)


def test_a_password_is_never_shown() -> None:
    secret = SSL_KEYSTORE_PASSWORD.parse("hunter2")
    assert secret is not None
    assert secret.value == "hunter2"
    assert "hunter2" not in f"{secret} {secret!r} {[secret]}"
    assert SSL_KEYSTORE_PASSWORD.sensitive


@pytest.mark.parametrize(
    ("text", "ms"),
    [("PT1H30M", 5_400_000), ("P2D", 172_800_000), ("PT0.5S", 500), ("pt2,25s", 2_250), ("P1DT1S", 86_401_000)],
)
def test_a_duration_is_read_in_milliseconds(text: str, ms: int) -> None:
    assert reset_duration_ms(f"by_duration:{text}") == ms

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.broker.config import ConfigError, NodeConfig, load_config, node_config
from kavka.model.settings import LOG_SEGMENT_BYTES, NUM_PARTITIONS
from kavka.model.types import Endpoint

MEMBER = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@h:9093",
}
BROKER = MEMBER | {
    "process.roles": "broker",
    "listeners": "PLAINTEXT://h:9092",
    "controller.quorum.voters": "2@h:9093",
}
CONTROLLER = MEMBER | {"process.roles": "controller", "listeners": "CONTROLLER://h:9093"}


def written(tmp_path: Path, text: str) -> str:
    file = tmp_path / "server.properties"
    file.write_text(text)
    return str(file)


def node(texts: dict[str, str]) -> NodeConfig:
    return node_config(texts, this_host=lambda: "this-host")


def test_without_any_configuration_a_node_serves_this_machine_alone() -> None:
    config = load_config()
    loopback = Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT")
    assert config.node_id == 1
    assert config.roles == {"broker", "controller"}
    assert config.standalone
    assert config.listeners == config.advertised == (loopback,)
    assert config.controller_listeners == ()
    assert config.inter_broker_listener == "PLAINTEXT"
    assert config.data_dirs == ("kavka-data",)
    assert config.metadata_dir == "kavka-data"
    assert config.warnings == ()


def test_the_command_line_names_the_data_dir_and_the_address() -> None:
    config = load_config(data_dir="/d", listen="[::1]:0")
    assert (config.data_dirs, config.metadata_dir) == (("/d",), "/d")
    assert config.listeners == (Endpoint("PLAINTEXT", "::1", 0, "PLAINTEXT"),)


def test_overrides_win_over_the_environment_which_wins_over_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "num.partitions=2\nlog.segment.bytes=2097152\nlog.dirs=/a,/b\n")
    environment = {"KAVKA_NUM_PARTITIONS": "3", "KAVKA_LOG_SEGMENT_BYTES": "3145728", "HOME": "/h"}
    assert load_config(file).values[NUM_PARTITIONS] == 2
    assert load_config(file, environment=environment).values[NUM_PARTITIONS] == 3
    config = load_config(file, environment=environment, overrides=["num.partitions = 4"])
    assert config.values[NUM_PARTITIONS] == 4
    assert config.values[LOG_SEGMENT_BYTES] == 3145728
    assert (config.data_dirs, config.metadata_dir) == (("/a", "/b"), "/a")


def test_a_file_means_kafkas_own_defaults(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, ""))
    assert config.listeners == (Endpoint("PLAINTEXT", "", 9092, "PLAINTEXT"),)
    assert config.advertised[0].host
    assert config.data_dirs == ("/tmp/kafka-logs",)


def test_an_empty_host_is_advertised_as_this_machine() -> None:
    assert node({"listeners": "PLAINTEXT://:9092"}).advertised[0].host == "this-host"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("num.partitions=0", "num.partitions: '0' is not allowed, it must be at least 1 (from {file})"),
        ("a=\\u1", "{file}: line 1: \\u1 is not a character: four hexadecimal digits expected"),
        ("log.dirs=", "log.dirs: '' is not allowed, it must be a list that is not empty and has no empty entries"),
    ],
)
def test_an_error_is_one_line_that_says_what_and_where(tmp_path: Path, text: str, line: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert str(caught.value).startswith(line.format(file=file))
    assert "\n" not in str(caught.value)


def test_an_error_of_the_command_line_or_the_environment_says_so() -> None:
    with pytest.raises(ConfigError, match=r"is not key=value"):
        load_config(overrides=["num.partitions"])
    with pytest.raises(ConfigError, match=r"\(from --override\)"):
        load_config(overrides=["num.partitions=x"])
    with pytest.raises(ConfigError, match=r"\(from the environment\)"):
        load_config(environment={"KAVKA_NUM_PARTITIONS": "x"})
    with pytest.raises(ConfigError, match=r"listeners: .* \(from --listen\)"):
        load_config(listen="nowhere")


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_config(str(tmp_path / "absent"))


def test_unknown_keys_are_warnings_that_guess_what_was_meant() -> None:
    config = load_config(
        environment={"KAVKA_NUM_PARTITION": "1", "KAVKA_PURE": "1"},
        overrides=["num.partition=3", "zookeeper.connect=z:2181", "num.io.threads=8", "background.threads=1"],
    )
    assert config.warnings == (
        "KAVKA_NUM_PARTITION names no setting, did you mean KAVKA_NUM_PARTITIONS?",
        "num.partition is no setting, did you mean num.partitions?",
        "zookeeper.connect is no setting",
        "accepted without effect: background.threads, num.io.threads",
    )


def test_a_secret_is_not_repeated_in_an_error() -> None:
    config = node(BROKER | {"ssl.keystore.password": "hunter2"})
    assert "hunter2" not in f"{config.warnings} {config}"


def test_the_members_of_a_cluster_are_known_by_their_roles() -> None:
    both, broker, controller = node(MEMBER), node(BROKER), node(CONTROLLER)
    assert [node.standalone for node in (both, broker, controller)] == [False] * 3
    assert [listener.port for listener in both.controller_listeners] == [9093]
    assert [listener.port for listener in both.listeners] == [9092]
    assert [endpoint.listener for endpoint in both.advertised] == ["PLAINTEXT"]
    assert broker.controller_listeners == ()
    assert (controller.listeners, controller.advertised) == ((), ())


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"node.id": "1", "broker.id": "2"}, "broker.id: it must be the same as node.id"),
        ({"process.roles": ""}, "process.roles: '' is not allowed"),
        ({"process.roles": "witness"}, "a list of broker, controller"),
        ({"broker.heartbeat.interval.ms": "9000"}, "less than broker.session.timeout.ms"),
        ({"connections.max.idle.ms": "50"}, "connections.max.idle.ms"),
        ({"listeners": "SSL://h:1"}, "PLAINTEXT is not an advertised listener"),
        ({"listeners": "A://h:1", "controller.listener.names": "A"}, "a broker needs one that is not among"),
        ({"cordoned.log.dirs": "/x"}, "cordoned.log.dirs: /x is not among the data dirs"),
        ({"log.roll.ms": "0"}, "log.roll.ms"),
        ({"early.start.listeners": "NONE"}, "early.start.listeners: NONE is not among listeners"),
        ({"early.start.listeners": "plaintext"}, "early.start.listeners: PLAINTEXT is a broker's"),
    ],
)
def test_a_node_that_contradicts_itself_does_not_start(texts: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        node({"listeners": "PLAINTEXT://h:9092"} | texts)


@pytest.mark.parametrize(
    ("base", "change", "words"),
    [
        (MEMBER, {"node.id": None}, "node.id: a node of a cluster must be given one"),
        (MEMBER, {"process.roles": None}, "process.roles: a node of a cluster"),
        (MEMBER, {"controller.quorum.voters": ""}, "must name the controllers"),
        (MEMBER, {"controller.quorum.voters": "2@h:9093"}, "this controller, 1, is not among them"),
        (MEMBER, {"controller.listener.names": None, "listeners": "PLAINTEXT://h:1"}, "must be given one"),
        (MEMBER, {"controller.listener.names": "CONTROLLER,OTHER"}, "OTHER is not among listeners"),
        (BROKER, {"controller.quorum.voters": "1@h:9093"}, "1 is this node, which is no controller"),
        (BROKER, {"listeners": MEMBER["listeners"]}, "must not be in the listeners of a broker"),
        (BROKER, {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}, "CONTROLLER is missing"),
        (BROKER, {"controller.quorum.auto.join.enable": "true"}, "only a controller can join"),
        (CONTROLLER, {"listeners": MEMBER["listeners"]}, "a controller has only those of"),
    ],
)
def test_a_member_of_a_cluster_must_fit_in(base: dict[str, str], change: dict[str, str | None], words: str) -> None:
    texts = {key: text for key, text in (base | change).items() if text is not None}
    with pytest.raises(ConfigError, match=words):
        node(texts)


SSL_LISTENER = {"listeners": "SSL://h:9092", "security.inter.broker.protocol": "SSL"}


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("principal.builder.class", "com.example.Builder"),
        ("listener.name.ssl.principal.builder.class", "com.example.Builder"),
        ("security.providers", "com.example.Provider"),
        ("ssl.trustmanager.algorithm", "RevocationChecking"),
        ("listener.name.ssl.ssl.trustmanager.algorithm", "RevocationChecking"),
        ("ssl.keymanager.algorithm", "Hardware"),
        ("sasl.login.class", "com.example.Login"),
        ("listener.name.ssl.plain.sasl.login.class", "com.example.Login"),
        ("sasl.client.callback.handler.class", "com.example.Handler"),
        (
            "sasl.oauthbearer.jwt.retriever.class",
            "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever",
        ),
        ("config.providers", "file"),
        ("create.topic.policy.class.name", "com.example.Policy"),
        ("alter.config.policy.class.name", "com.example.Policy"),
        ("client.quota.callback.class", "com.example.Quotas"),
        ("plain.sasl.server.callback.handler.class", "com.example.Handler"),
        ("scram-sha-256.sasl.jaas.config", "com.example.Module required;"),
        ("plain.connections.max.reauth.ms", "1000"),
        ("listener.name.SSL.ssl.client.auth", "required"),
        ("listener.name.ssl.PLAIN.sasl.jaas.config", "com.example.Module required;"),
    ],
)
def test_what_guards_something_and_cannot_be_honoured_refuses_to_start(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"^{key}: ") as refused:
        node(SSL_LISTENER | {key: text})
    assert "com.example.Module" not in str(refused.value)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("principal.builder.class", "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"),
        ("ssl.trustmanager.algorithm", "SunX509"),
        ("config.providers", ""),
        ("sasl.oauthbearer.jwt.retriever.class", "org.apache.kafka.common.security.oauthbearer.FileJwtRetriever"),
        ("sasl.login.class", "org.apache.kafka.common.security.authenticator.DefaultLogin"),
    ],
)
def test_kafkas_own_parts_are_what_is_here(key: str, text: str) -> None:
    assert node(SSL_LISTENER | {key: text}).warnings == ()


def test_what_is_set_for_a_listener_that_there_is_not_is_a_warning() -> None:
    key = "listener.name.plaintex.connections.max.reauth.ms"
    words = f"{key}: listener.security.protocol.map has no PLAINTEX, did you mean plaintext?"
    assert node({key: "1"}).warnings == (words,)
    assert node({"listener.name.registry.ssl.client.auth": "none"}).warnings == ()


def test_a_slow_heartbeat_is_a_warning() -> None:
    assert node({"broker.heartbeat.interval.ms": "5000"}).warnings == (
        "broker.heartbeat.interval.ms is more than half of broker.session.timeout.ms",
    )


def test_a_combined_node_is_configured_with_the_keys_of_kafkas_sample_file(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        process.roles=broker,controller
        node.id=1
        controller.quorum.bootstrap.servers=localhost:9093
        listeners=PLAINTEXT://:9092,CONTROLLER://:9093
        inter.broker.listener.name=PLAINTEXT
        advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
        controller.listener.names=CONTROLLER
        listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
        num.network.threads=3
        socket.send.buffer.bytes=102400
        log.dirs=/tmp/kraft-combined-logs
        offsets.topic.replication.factor=1
        log.retention.hours=168
        """,
    )
    config = load_config(file)
    assert not config.standalone
    assert config.advertised == (Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)
    assert config.controller_listeners == (Endpoint("CONTROLLER", "", 9093, "PLAINTEXT"),)
    assert config.advertised_controllers == (Endpoint("CONTROLLER", "localhost", 9093, "PLAINTEXT"),)
    assert config.warnings == ("accepted without effect: num.network.threads",)


@pytest.mark.parametrize(
    ("change", "host"),
    [
        ({}, "h"),
        ({"listeners": "PLAINTEXT://h:9092,CONTROLLER://:9093"}, "voter"),
        ({"listeners": "PLAINTEXT://h:9092,CONTROLLER://0.0.0.0:9093", "controller.quorum.voters": ""}, "this-host"),
    ],
)
def test_others_find_a_controller_by_its_listener_or_as_a_voter(change: dict[str, str], host: str) -> None:
    texts = MEMBER | {"controller.quorum.voters": "1@voter:9093", "controller.quorum.bootstrap.servers": "h:1"} | change
    assert [endpoint.host for endpoint in node(texts).advertised_controllers] == [host]


@pytest.mark.parametrize(
    ("listen", "advertise", "told"),
    [
        ("0.0.0.0:9092", "broker1", ("broker1", 9092)),
        ("0.0.0.0:9092", "broker1:19092", ("broker1", 19092)),
        ("[::]:9092", "[fd00::1]", ("fd00::1", 9092)),
        ("127.0.0.1:0", "[fd00::1]:7", ("fd00::1", 7)),
    ],
)
def test_what_clients_are_told_can_be_set_by_itself(listen: str, advertise: str, told: tuple[str, int]) -> None:
    (endpoint,) = load_config(listen=listen, advertise=advertise).advertised
    assert (endpoint.host, endpoint.port) == told


def test_one_address_is_not_for_several_listeners() -> None:
    with pytest.raises(ConfigError, match="--advertise: a node with several listeners"):
        load_config(overrides=["listeners=PLAINTEXT://:1,SSL://:2"], advertise="h")
    with pytest.raises(ConfigError, match=r"--advertise"):
        load_config(advertise="h:port")

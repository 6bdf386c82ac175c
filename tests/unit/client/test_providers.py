"""Config providers: a reference becomes what the environment, a file or somebody's function has, or it is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.client.providers import resolved
from kavka.model.settings import SettingError

KAFKAS = "org.apache.kafka.common.config.provider."


def lookup(path: str, key: str) -> str:
    return {("kafka/prod", "password"): "from-the-vault"}[path, key]


def test_references_become_what_the_declared_providers_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "of-the-environment")
    (tmp_path / "secrets.properties").write_text("pw=of a file\n")
    (tmp_path / "token").write_text("of-a-directory")
    options = {
        "config.providers": "env, file,dir,vault",
        "config.providers.env.class": KAFKAS + "EnvVarConfigProvider",
        "config.providers.file.class": KAFKAS + "FileConfigProvider",
        "config.providers.dir.class": KAFKAS + "DirectoryConfigProvider",
        "config.providers.vault.class": f"{__name__}:lookup",
        "sasl.jaas.config": 'Plain required username="a" password="${env:KAFKA_PASSWORD}";',
        "ssl.key.password": f"${{file:{tmp_path}/secrets.properties:pw}}",
        "ssl.keystore.password": f"${{dir:{tmp_path}:token}}",
        "ssl.truststore.password": "${vault:kafka/prod:password}${nobody:x}",
    }
    found = resolved(options)
    assert found["sasl.jaas.config"] == 'Plain required username="a" password="of-the-environment";'
    assert found["ssl.key.password"] == "of a file"
    assert found["ssl.keystore.password"] == "of-a-directory"
    assert found["ssl.truststore.password"] == "from-the-vault${nobody:x}", "an unknown provider is plain text"


def test_without_declared_providers_a_reference_is_text() -> None:
    assert resolved({"sasl.password": "${env:HOME}"}) == {"sasl.password": "${env:HOME}"}


@pytest.mark.parametrize(
    ("provider", "reference", "message"),
    [
        ("EnvVarConfigProvider", "${p:NOT_SET_ANYWHERE}", "NOT_SET_ANYWHERE"),
        ("FileConfigProvider", "${p:/nowhere/x:key}", "/nowhere/x"),
        ("DirectoryConfigProvider", "${p:/etc/ssl:../passwd}", "not a file of /etc/ssl"),
        ("org.example.Vault", "", "MODULE:FUNCTION"),
        ("no_such_module:f", "", "no_such_module"),
    ],
)
def test_a_reference_that_leads_nowhere_is_an_error(provider: str, reference: str, message: str) -> None:
    options = {"config.providers": "p", "config.providers.p.class": provider, "sasl.password": reference}
    with pytest.raises(SettingError, match=message):
        resolved(options)


def test_a_provider_without_a_class_is_an_error() -> None:
    with pytest.raises(SettingError, match=r"config\.providers\.p\.class is missing"):
        resolved({"config.providers": "p"})

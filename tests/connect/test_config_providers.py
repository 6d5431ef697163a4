"""Config providers: references are resolved when needed, values never shown (KIP-297, KIP-421)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import config_providers
from ottla.connect.api import SinkConnector, SinkTask
from ottla.connect.config_providers import PACKAGE, ConfigProviders
from ottla.connect.errors import ConfigException, ConnectException
from ottla.connect.herder.rest_exceptions import ConnectRestException
from ottla.connect.mirror_flows import mirror_flows
from ottla.connect.plugin_catalog import PluginCatalog
from ottla.connect.run import connector_instance
from ottla.connect.run.worker_context import WorkerContext


def named(kind: str, **params: str) -> dict[str, str]:
    given = {f"config.providers.{kind}.param.{name}": value for name, value in params.items()}
    classes = {"file": "File", "dir": "Directory", "env": "EnvVar"}
    return {
        "config.providers": kind,
        f"config.providers.{kind}.class": f"{PACKAGE}{classes[kind]}ConfigProvider",
        **given,
    }


def resolved(kind: str, text: str, **params: str) -> str:
    return ConfigProviders(named(kind, **params)).resolved({"a": text})["a"]


def test_keys_of_a_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "secrets.properties"
    file.write_text("password=s3cret\nuser.name = ann\n")
    assert resolved("file", f"${{file:{file}:password}}") == "s3cret"
    both = f"<${{file:{file}:user.name}}:${{file:{file}:password}}>"
    assert resolved("file", both) == "<ann:s3cret>"
    for unknown in (f"${{file:{file}:nothing}}", "${vault:/a:b}", "${plain}", "${file::x}"):
        assert resolved("file", unknown) == unknown
    with pytest.raises(ConfigException, match=f"Could not read properties from file {tmp_path}/no"):
        resolved("file", f"${{file:{tmp_path}/no:x}}")


def test_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "token").write_text("abc\n")
    (tmp_path / "outside").write_text("not yours")
    assert resolved("dir", f"${{dir:{tmp_path}/inner:token}}") == "abc\n"
    for key in ("../outside", "nothing", ".."):
        text = f"${{dir:{tmp_path}/inner:{key}}}"
        assert resolved("dir", text) == text
    text = f"${{dir:{tmp_path}/outside:x}}"
    assert resolved("dir", text) == text  # not a folder: logged


@pytest.mark.parametrize("kind", ["file", "dir"])
def test_only_allowed_paths_are_read(kind: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for folder in (tmp_path, tmp_path / "in"):
        (folder / "f").write_text("key=v")
    here, key = (tmp_path, "f") if kind == "dir" else (tmp_path / "f", "key")
    inside = here.parent / "in" / here.name if kind == "file" else tmp_path / "in"
    allowed = {"allowed.paths": f"{tmp_path / 'in'}"}
    assert resolved(kind, f"${{{kind}:{inside}:{key}}}", **allowed) in ("v", "key=v")
    for sly in (here, tmp_path / "in" / ".." / here.name):
        text = f"${{{kind}:{sly}:{key}}}"
        assert resolved(kind, text, **allowed) == text
    with pytest.raises(ConfigException, match="Path relative is not absolute"):
        ConfigProviders(named(kind, **{"allowed.paths": "relative"}))
    with pytest.raises(ConfigException, match=r"Path /no/where does not exist"):
        ConfigProviders(named(kind, **{"allowed.paths": "/no/where"}))


def test_environment_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "abc")
    monkeypatch.setenv("OTHER_TOKEN", "def")
    assert resolved("env", "Bearer ${env:SHOP_TOKEN}") == "Bearer abc"
    allowed = {"allowlist.pattern": "SHOP_.*"}
    assert resolved("env", "${env:SHOP_TOKEN}${env:OTHER_TOKEN}", **allowed) == (
        "abc${env:OTHER_TOKEN}"
    )
    with pytest.raises(ConfigException, match="Path is not used for EnvVarConfigProvider"):
        resolved("env", "${env:/a:SHOP_TOKEN}")
    with pytest.raises(ConfigException, match=r"allowlist\.pattern"):
        ConfigProviders(named("env", **{"allowlist.pattern": "("}))


class ShoutingProvider:
    """A custom provider."""

    def configure(self, params: Mapping[str, str]) -> None:
        self._end = params["end"]

    def get(self, path: str, keys: Any) -> dict[str, str]:
        return {key: key.upper() + self._end for key in keys}


def test_a_workers_own_properties_are_resolved() -> None:
    given = {
        "config.providers": "loud, absent",
        "config.providers.loud.class": f"{__name__}:ShoutingProvider",
        "config.providers.loud.param.end": "!",
        "bootstrap.servers": "${loud:host}:9092",
        "group.id": "${absent:x}",
    }
    found = config_providers.resolve_worker_config(given)
    assert found["bootstrap.servers"] == "HOST!:9092"
    assert found["group.id"] == "${absent:x}"
    wrong = {**given, "config.providers.loud.class": "nobody.Knows"}
    with pytest.raises(ConfigException, match=r"Class nobody\.Knows could not be found"):
        config_providers.resolve_worker_config(wrong)
    assert config_providers.resolve_worker_config({"a": "${file:/b:c}"}) == {"a": "${file:/b:c}"}


class NoTask(SinkTask):
    pass


class Talkative(SinkConnector):
    """A connector whose error contains the password."""

    task_class = NoTask

    def start(self, props: Mapping[str, str]) -> None:
        self._props = dict(props)
        if "refuse" in props:
            raise ConnectException(f"the password {props['password']} is bad")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self._props, "share": "0", "seen": self._props["password"][:1]}]


def test_only_the_connector_sees_the_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "s3cret")
    worker = WorkerContext(named("env"))
    config = {
        "name": "talkative",
        "connector.class": f"{__name__}:Talkative",
        "topics": "t",
        "password": "${env:SHOP_TOKEN}",
    }
    connector = connector_instance.ConnectorInstance(
        "talkative", config, worker, on_request=lambda: None
    )
    assert connector.start() is None
    (task,) = connector.task_configs
    assert task["password"] == "${env:SHOP_TOKEN}"
    assert task["seen"] == "s", "it was resolved when the connector was started"
    assert worker.resolved(task)["password"] == "s3cret"
    monkeypatch.setenv("SHOP_TOKEN", "another")
    assert worker.resolved(task)["password"] == "another", "and is again with each start"
    connector.stop()

    refusing = connector_instance.ConnectorInstance(
        "talkative", {**config, "refuse": "1"}, worker, on_request=lambda: None
    )
    trace = refusing.start()
    assert trace is not None
    assert "the password ${env:SHOP_TOKEN} is bad" in trace
    missing = {**config, "password": "${env:/path:X}"}
    failed = connector_instance.ConnectorInstance(
        "talkative", missing, worker, on_request=lambda: None
    ).start()
    assert failed is not None
    assert "Path is not used" in failed


def test_validation_checks_the_value_and_shows_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TASKS", "many")
    monkeypatch.setenv("FILE", "/tmp/secret-place")
    answers = PluginCatalog(named("env"))
    config = {
        "name": "s",
        "connector.class": "FileStreamSink",
        "topics": "t",
        "file": "${env:FILE}",
        "tasks.max": "${env:TASKS}",
    }
    found = answers.validate(config)
    values = {info["value"]["name"]: info["value"] for info in found["configs"]}
    assert values["file"]["value"] == "${env:FILE}"
    message = "Invalid value ${env:TASKS} for configuration tasks.max: Not a number of type INT"
    assert message in values["tasks.max"]["errors"]
    assert "secret-place" not in json.dumps(found)
    with pytest.raises(ConnectRestException, match="Path is not used"):
        answers.validate({**config, "file": "${env:/x:FILE}"})


def test_a_mirrors_workers_have_the_providers_and_its_connectors_the_references() -> None:
    (flow,) = mirror_flows(
        {
            **named("env"),
            "clusters": "a, b",
            "a.bootstrap.servers": "a:1",
            "b.bootstrap.servers": "b:1",
            "a.sasl.jaas.config": "${env:JAAS}",
            "a->b.enabled": "true",
            "emit.heartbeats.enabled": "false",
        }
    )
    assert flow.worker["config.providers"] == "env"
    for config in flow.connectors.values():
        assert config["source.cluster.sasl.jaas.config"] == "${env:JAAS}"

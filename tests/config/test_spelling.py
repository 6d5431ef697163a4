"""An unknown name: the error suggests the nearest known one."""

from __future__ import annotations

import logging

import confluent_kafka
import pytest

from ottla.broker import process
from ottla.cli.kafka.options import Option, Options, UsageError
from ottla.client.settings import client_with
from ottla.config import ServerConfig
from ottla.config.topics import validate_topic_overrides
from ottla.connect.errors import ConnectException
from ottla.connect.plugins import Plugins
from ottla.errors import KafkaError
from ottla.spelling import did_you_mean


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("linger.m", "; did you mean linger.ms?"),
        ("Linger.MS", "; did you mean linger.ms?"),
        ("acls", "; did you mean acks?"),
        ("nothing.like.it", ""),
    ],
)
def test_the_nearest_name_is_suggested_if_close_enough(name: str, hint: str) -> None:
    assert did_you_mean(name, ["acks", "linger.ms"]) == hint


def test_a_config_of_a_topic() -> None:
    with pytest.raises(KafkaError, match=r"Unknown topic .*: retention; did you mean retention.ms"):
        validate_topic_overrides(ServerConfig({}), {"retention": "1"})


def test_a_property_of_a_broker(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_set_up_logging", lambda: None)
    monkeypatch.setattr(process, "_raise_file_limit", lambda: None)
    monkeypatch.setattr(process, "run_loop", lambda serving: serving.close() or 0)
    with caplog.at_level(logging.WARNING):
        process.run_process(ServerConfig({"log.dir.s": "/tmp/x", "num.partition": "3"}))
    result = "Ignoring unknown property num.partition; did you mean num.partitions?"
    assert result in caplog.messages


def test_a_setting_of_a_client(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ottla.client"):
        client_with(confluent_kafka.Producer, {"compresion.type": "zstd"})
    result = "Ignoring unknown setting compresion.type; did you mean compression.type?"
    assert caplog.messages == [result]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("FileStreamSorceConnector", "FileStreamSourceConnector"),
        ("org.apache.kafka.connect.file.FileStreamSinkConector", "FileStreamSinkConnector"),
    ],
)
def test_a_class_of_a_connector(name: str, meant: str) -> None:
    with pytest.raises(ConnectException, match=rf"{name}, avail.* Did you mean [\w.]*{meant}\?"):
        Plugins().connector(name)


def test_an_option_of_a_tool() -> None:
    with pytest.raises(UsageError, match=r"not a recognized option; did you mean --topic\?"):
        Options([Option("topic", "It.", "name")], ["--topics", "x"])

"""`ottla certs`, and a broker and clients that use its files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ottla.cli.app import main
from ottla.client.protocol.connection import BrokerConnection
from ottla.client.settings import librdkafka_settings
from ottla.config import ServerConfig, parse_properties
from ottla.errors import KafkaError
from ottla.testing.broker_process import BrokerProcess
from ottla.testing.ports import reserve_port


def test_one_command_creates_every_certificate_for_a_trial(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    with reserve_port() as reserved:
        port = reserved.getsockname()[1]
        hosts = ("--host", "broker.example", "--host", "10.0.0.7")
        listen = ("--listen", f"127.0.0.1:{port}")
        assert main(["certs", str(folder), *hosts, "--client", "alice", *listen]) == 0
        shown = subprocess.run(
            ("openssl", "x509", "-in", folder / "broker.crt", "-noout", "-text"),
            capture_output=True,
            text=True,
            check=True,
        )
        assert "DNS:broker.example" in shown.stdout
        assert "IP Address:10.0.0.7" in shown.stdout
        properties = parse_properties((folder / "server.properties").read_text())
        ServerConfig(properties)
        settings = librdkafka_settings(parse_properties((folder / "alice.properties").read_text()))
        broker = BrokerProcess({**properties, "log.dirs": str(tmp_path / "data")}, port)
        broker._settings = settings  # type: ignore[assignment]
        broker.start()
        try:
            with pytest.raises(KafkaError):
                BrokerConnection(
                    "127.0.0.1",
                    port,
                    settings={
                        "security.protocol": "SSL",
                        "ssl.ca.location": str(folder / "ca.pem"),
                    },
                    timeout_s=60,
                )
        finally:
            broker.stop()


def test_the_authority_is_kept_and_keys_are_private(tmp_path: Path) -> None:
    main(["certs", str(tmp_path)])
    before = (tmp_path / "ca.pem").read_text(), (tmp_path / "broker.crt").read_text()
    main(["certs", str(tmp_path)])
    assert (tmp_path / "ca.pem").read_text() == before[0]
    assert (tmp_path / "broker.crt").read_text() != before[1]
    for name in ("ca.key", "broker.key", "broker.pem", "client.key"):
        assert (tmp_path / name).stat().st_mode & 0o77 == 0

"""The rows over TLS: clients and brokers have one certificate, handshakes are full ones."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
from pathlib import Path

from benchmarks.bench import last_json
from benchmarks.rows import ROW_KEYS
from benchmarks.secured_listeners import CIPHER, PROTOCOLS, SecuredListeners, client_config

from benchmarks import access_cost, handshake_load
from ottla.testing import LocalCluster


def test_the_rows_can_be_selected() -> None:
    assert {"secured", "access"} <= set(ROW_KEYS)


def test_handshakes_are_counted_and_none_is_resumed() -> None:
    with LocalCluster(security="ssl") as cluster:
        command = (sys.executable, "-m", "benchmarks.handshake_load")
        given = ("--port", str(cluster.port), "--seconds", "0.2", "--clients", "2")
        done = subprocess.run([*command, *given], capture_output=True, text=True, check=True)
        assert last_json(done.stdout)["connections"] >= 2
        with (
            socket.create_connection(("127.0.0.1", cluster.port)) as plain,
            handshake_load.context().wrap_socket(plain) as secured,
        ):
            assert secured.version() == "TLSv1.3"


def test_a_client_trusts_the_authority_of_the_brokers(tmp_path: Path) -> None:
    secured = SecuredListeners(tmp_path)
    settings = secured.broker_properties()
    context = ssl.create_default_context(cafile=settings["ssl.truststore.location"])
    assert context.cert_store_stats()["x509_ca"] == 1
    for protocol in PROTOCOLS:
        text = client_config(tmp_path, protocol).read_text()
        assert f"security.protocol={protocol}\n" in text
        assert f"ssl.cipher.suites={CIPHER}\n" in text
        assert ("sasl.jaas.config" in text) == (protocol == "SASL_SSL")


def test_a_request_costs_something_with_acls_and_without(tmp_path: Path) -> None:
    found = asyncio.run(access_cost.measure(tmp_path, rounds=1))
    assert found.keys() == {"Produce", "Fetch"}
    assert all(costs["off"] > 0 and costs["on"] > 0 for costs in found.values())

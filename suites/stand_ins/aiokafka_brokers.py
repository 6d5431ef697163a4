"""A pytest plugin: aiokafka's tests use brokers that run, not a container that they start.

SUITE_BROKERS names them; SUITE_SSL, SUITE_SASL_PLAINTEXT and SUITE_SASL_SSL name their secured
listeners, SUITE_CERTIFICATES a folder. Tools that tests would run in the container are run here.
Kerberos is left undone; tests that need it are left out of the run.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import types
from pathlib import Path

import pytest

TOOL_S_MAX = 120


class Container:
    """Runs Kafka's own tools where a container would."""

    def exec_run(self, command: str) -> tuple[int, bytes]:
        words = shlex.split(command)
        tool = Path(os.environ["SUITE_TOOLS"]) / "bin" / Path(words[0]).name
        arguments = []
        rest = iter(words[1:])
        for word in rest:
            if word in ("--zookeeper", "--authorizer-properties"):  # gone since Kafka 4.0
                next(rest)
                continue
            arguments.append(word)
        reach = ["--bootstrap-server", os.environ["SUITE_BROKERS"].split(",")[0]]
        done = subprocess.run(
            [str(tool), *reach, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TOOL_S_MAX,
        )
        return done.returncode, done.stdout


def port_of(listener: str) -> int:
    return int(os.environ[f"SUITE_{listener}"].split(",")[0].rsplit(":", 1)[1])


def value_of(name: str) -> tuple[object] | None:
    """The value of a fixture that this plugin replaces, or None."""
    if name == "kafka_server":
        hosts = os.environ["SUITE_BROKERS"].split(",")
        host, port = hosts[0].rsplit(":", 1)
        return (
            types.SimpleNamespace(
                host=host, port=int(port), hosts=hosts, container=Container(),
                ssl_port=port_of("SSL"), sasl_plain_port=port_of("SASL_PLAINTEXT"),
                sasl_ssl_port=port_of("SASL_SSL"),
            ),
        )  # fmt: skip
    if name == "ssl_folder":
        return (Path(os.environ["SUITE_CERTIFICATES"]),)
    if name in ("docker", "kerberos_utils"):
        return (None,)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef, request):
    ours = value_of(fixturedef.argname)
    if ours is None:
        return None
    fixturedef.cached_result = (ours[0], fixturedef.cache_key(request), None)
    return ours  # not None: the hook is done; pytest takes the value from cached_result

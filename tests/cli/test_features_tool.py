"""kafka-features, and the commands of kafka-cluster that came with Kafka 4.4."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.cli.kafka import broker_api_versions, features
from ottla.cli.kafka import cluster as cluster_tool
from ottla.testing import LocalCluster

Tool = Callable[..., Any]


@pytest.fixture
def one() -> Iterator[LocalCluster]:
    """Its own for each test: each change of a level raises the epoch that others show."""
    with LocalCluster() as cluster:
        yield cluster


@pytest.fixture
def tool(run: Tool, one: LocalCluster) -> Tool:
    return lambda *words: run(features.main, "--bootstrap-server", one.bootstrap_servers, *words)


def test_describe(tool: Tool) -> None:
    done = tool("describe")
    assert done.code == 0
    lines = dict(line.split(None, 2)[1:] for line in done.out.splitlines())
    assert list(lines) == sorted(lines)
    assert " ".join(lines["transaction.version"].split()) == (
        "SupportedMinVersion: 0 SupportedMaxVersion: 2 FinalizedVersionLevel: 2 Epoch: 0"
    )
    assert "FinalizedVersionLevel: 4.4-IV2" in lines["metadata.version"]


def test_downgrade_disable_and_upgrade(tool: Tool) -> None:
    assert tool("downgrade", "--feature", "transaction.version=1", "--dry-run").out == (
        "transaction.version can be downgraded to 1.\n"
    )
    assert tool("downgrade", "--feature", "transaction.version=1").out == (
        "transaction.version was downgraded to 1.\n"
    )
    assert tool("disable", "--feature", "group.version").out == "group.version was disabled.\n"
    described = tool("describe", "--node-id", "0").out
    assert described.count("Epoch: 2") == len(described.splitlines())
    done = tool("upgrade", "--feature", "transaction.version=2", "--feature", "group.version=1")
    assert done.out == (
        "group.version was upgraded to 1.\ntransaction.version was upgraded to 2.\n"
    )


def test_invalid_requests_are_refused(tool: Tool) -> None:
    done = tool("upgrade", "--feature", "transaction.version=3")
    assert done.code == 1
    assert done.out == (
        "Could not upgrade transaction.version to 3. The update failed for all features since the"
        " following feature had an error: Invalid update version 3 for feature"
        " transaction.version. Local controller 0 only supports versions 0-2\n"
    )
    assert done.err == "1 out of 1 operation(s) failed.\n"
    assert "equals sign not found" in tool("upgrade", "--feature", "x").err
    assert "at least one feature to upgrade" in tool("upgrade").err
    twice = ("--feature", "group.version", "--feature", "group.version")
    assert "specified more than once" in tool("disable", *twice).err
    both = ("--release-version", "4.3", "--feature", "group.version=1")
    assert "Can not specify `release-version`" in tool("upgrade", *both).err


def test_version_mapping_and_dependencies(run: Tool) -> None:
    """Kafka 4.3.1 prints the same for its own releases."""
    assert run(features.main, "version-mapping", "--release-version", "4.2").out.splitlines() == [
        "metadata.version=29 (4.2)",
        "kraft.version=1",
        "transaction.version=2",
        "group.version=1",
        "eligible.leader.replicas.version=1",
        "share.version=1",
        "streams.version=1",
    ]
    newest = run(features.main, "version-mapping").out
    assert newest.startswith("metadata.version=33 (4.4-IV2)\n")
    assert "share.version=2\n" in newest
    unknown = run(features.main, "version-mapping", "--release-version", "2.8")
    assert unknown.code == 1
    assert "Unknown metadata.version '2.8'" in unknown.err
    wanted = ("--feature", "transaction.version=2", "--feature", "metadata.version=30")
    assert run(features.main, "feature-dependencies", *wanted).out == (
        "transaction.version=2 has no dependencies.\n"
        "metadata.version=30 (4.3-IV0) has no dependencies.\n"
    )


def test_kafka_cluster_lists_endpoints_and_api_versions(run: Tool, one: LocalCluster) -> None:
    bootstrap = one.bootstrap_servers
    host, _, port = bootstrap.partition(":")
    listed = run(cluster_tool.main, "list-endpoints", "-b", bootstrap).out.splitlines()
    assert [line.split() for line in listed] == [
        ["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"],
        ["0", host, port, "null", "unfenced", "broker"],
    ]
    versions = run(cluster_tool.main, "api-versions", "--bootstrap-server", bootstrap).out
    assert f"{bootstrap} (id: 0 rack: null isFenced: false) -> (" in versions
    assert versions == run(broker_api_versions.main, "--bootstrap-server", bootstrap).out

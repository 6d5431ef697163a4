"""Every tool, at an address without a listener: it reports that at once, and exits."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final

import pytest

from ottla.testing.ports import reserve_port

WAIT_S: Final = 60.0

# The arguments with which each tool connects; `@` is the broker's address.
AT: Final = ("--bootstrap-server", "@")
TOOLS: Final[dict[str, tuple[str, ...]]] = {
    "kafka-topics": (*AT, "--list"),
    "kafka-consumer-groups": (*AT, "--list"),
    "kafka-groups": (*AT, "--list"),
    "kafka-share-groups": (*AT, "--list"),
    "kafka-streams-groups": (*AT, "--list"),
    "kafka-transactions": (*AT, "list"),
    "kafka-configs": (*AT, "--describe", "--entity-type", "topics", "--entity-name", "x"),
    "kafka-acls": (*AT, "--list"),
    "kafka-delegation-tokens": (*AT, "--describe", "--command-config", os.devnull),
    "kafka-get-offsets": (*AT, "--topic", "x"),
    "kafka-delete-records": (*AT, "--offset-json-file", "FILE"),
    "kafka-broker-api-versions": AT,
    "kafka-reassign-partitions": (*AT, "--list"),
    "kafka-log-dirs": (*AT, "--describe"),
    "kafka-metadata-quorum": (*AT, "describe", "--status"),
    "kafka-client-metrics": (*AT, "--list"),
    "kafka-e2e-latency": (
        *(*AT, "--topic", "x", "--num-records", "1", "--producer-acks", "1", "--record-size", "9"),
    ),
    "kafka-verifiable-producer": (*AT, "--topic", "x", "--max-messages", "1"),
    "kafka-verifiable-consumer": (*AT, "--topic", "x", "--group-id", "g", "--max-messages", "1"),
    "kafka-verifiable-share-consumer": (*AT, "--topic", "x", "--group-id", "g"),
    "kafka-share-consumer-perf-test": (*AT, "--topic", "x", "--num-records", "1"),
    "kafka-replica-verification": ("--broker-list", "@"),
    "kafka-leader-election": (*AT, "--election-type", "preferred", "--all-topic-partitions"),
    "kafka-cluster": ("cluster-id", *AT),
    "kafka-features": (*AT, "describe"),
    "kafka-streams-application-reset": (*AT, "--application-id", "x", "--input-topics", "x"),
    "kafka-producer-perf-test": (
        *(*AT, "--topic", "x", "--num-records", "1", "--record-size", "1", "--throughput", "-1"),
    ),
    "kafka-consumer-perf-test": (*AT, "--topic", "x", "--num-records", "1"),
    "ottla topics list": ("-b", "@"),
    "ottla produce x value": ("-b", "@"),
    "ottla consume x": ("-b", "@"),
    "ottla groups list": ("-b", "@"),
    "ottla transactions list": ("-b", "@"),
    "ottla configs show topic:x": ("-b", "@"),
    "ottla users list": ("-b", "@"),
    "ottla acls list": ("-b", "@"),
}
AS_KAFKA: Final = ("kafka-consumer-groups", "kafka-share-groups", "kafka-streams-groups")
"""They print the error, and their exit code is 0."""
# These wait for a broker, as Kafka's own do: they log it, and Ctrl-C ends them.
PATIENT: Final[dict[str, tuple[str, ...]]] = {
    "kafka-console-producer": (*AT, "--topic", "x"),
    "kafka-console-consumer": (*AT, "--topic", "x"),
    "kafka-console-share-consumer": (*AT, "--topic", "x"),
}
# They take no address of a broker, or share the code of one above.
OTHERS: Final = {
    "ottla",
    "kafka-server-start",
    "kafka-server-stop",
    "kafka-storage",
    "kafka-dump-log",
    "zookeeper-server-start",
    "zookeeper-server-stop",
    "zookeeper-shell",
    "connect-standalone",
    "connect-distributed",
    "connect-mirror-maker",
    *(
        f"kafka-{schema}-console-{side}"
        for schema in ("avro", "json-schema", "protobuf")
        for side in ("producer", "consumer")
    ),
}


@pytest.fixture
def nobody() -> Iterator[str]:
    with closing(reserve_port()) as reserved:
        yield "{}:{}".format(*reserved.getsockname())


def scripts() -> dict[str, EntryPoint]:
    found = (entry_point for entry_point in entry_points(group="console_scripts"))
    ours = (entry for entry in found if entry.module.startswith("ottla.cli"))
    return {part.name: part for part in ours if not part.name.endswith(".sh")}


def command(tool: str, words: tuple[str, ...], nobody: str, tmp_path: Path) -> list[str]:
    name, *verb = tool.split()
    point = scripts()[name]
    code = f"import sys; from {point.module} import {point.attr} as main; sys.exit(main())"
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"partitions": [{"topic": "x", "partition": 0, "offset": 1}]}))
    given = {"@": nobody, "FILE": str(file)}
    return [sys.executable, "-c", code, *verb, *(given.get(word, word) for word in words)]


def test_every_tool_is_covered() -> None:
    named = {line.split()[0] for line in (*TOOLS, *PATIENT)} | OTHERS
    new = set(scripts()) - named
    assert not new, f"{new}: add the message for an address without a listener"


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_reports_an_unreachable_broker_and_exits(
    tool: str, nobody: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        command(tool, TOOLS[tool], nobody, tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    said = done.stdout + done.stderr
    assert done.returncode == (0 if tool in AS_KAFKA else 1), said
    assert f"cannot reach {nobody}: Connection refused" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("tool", PATIENT)
@pytest.mark.parametrize("typed", [b"", b"a line\n"])
def test_at_a_prompt_the_error_comes_before_the_first_line_and_ctrl_c_ends_the_tool(
    tool: str, typed: bytes, nobody: str, tmp_path: Path
) -> None:
    words = command(tool, PATIENT[tool], nobody, tmp_path)
    process, terminal = pty.fork()
    if process == 0:
        os.execv(words[0], words)
    try:
        shown = read_until(terminal, f"cannot reach {nobody}".encode())
        os.write(terminal, typed)
        os.write(terminal, b"\x03")
        shown += read_until(terminal, None)
    finally:
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
    assert os.WIFEXITED(status), shown.decode()
    assert b"Traceback" not in shown


def read_until(terminal: int, wanted: bytes | None) -> bytes:
    """The output until `text` appears; with None, until the program exits."""
    shown = b""
    deadline = time.monotonic() + WAIT_S
    while wanted is None or wanted not in shown:
        assert time.monotonic() < deadline, shown.decode()
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                data = os.read(terminal, 4096)
            except OSError:  # how a terminal reports that it was closed
                data = b""
            if not data:
                assert wanted is None, shown.decode()
                return shown
            shown += data
    return shown

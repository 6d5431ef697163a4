"""Records the servers of the start scripts, so that the stop scripts find them.

Kafka's stop scripts search the list of all processes for a pattern, and so hit whatever looks
alike. Here they stop only servers that this installation's scripts started.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from ottla.cli.local.process_identity import ProcessIdentity, identity_of, own_identity
from ottla.cli.local.run_records import RunRecord, RunRecords

SIGNAL: Final = "SIGNAL"  # the variable that Kafka's scripts read
NODE_ID, ROLES = "node.id", "process.roles"


def record_server(
    script: str, process: ProcessIdentity | None, details: Mapping[str, str]
) -> RunRecord | None:
    """Without a record, and with a line on standard error, the server starts nevertheless."""
    if process is None:
        return None
    record = RunRecord(script, str(process.pid), process, os.getcwd(), details=dict(details))
    try:
        RunRecords().write(record)
    except OSError as error:
        stop = script.replace("start", "stop")
        print(f"{script}: {stop} will not find this server: {error}", file=sys.stderr)
        return None
    return record


@contextmanager
def recorded_servers(script: str, details: Mapping[str, str]) -> Iterator[None]:
    """Record this process as the server."""
    record = record_server(script, own_identity(), details)
    try:
        yield
    finally:
        if record is not None:
            RunRecords().remove(record)


def record_daemon(script: str, pid: int, details: Mapping[str, str]) -> None:
    record_server(script, identity_of(pid), details)


def stop_servers(script: str, wanted: Mapping[str, str]) -> list[RunRecord]:
    """Send $SIGNAL, or SIGTERM, to servers with all `wanted` details; returns those reached."""
    number = signal_number()
    found = [
        record
        for record in RunRecords().alive(script)
        if all(record.details.get(name) == value for name, value in wanted.items())
    ]
    return [record for record in found if record.process.send(number)]


def stop_main(name: str, script: str, wanted: Mapping[str, str], *, kind: str) -> int:
    """The exit code of a stop script; errors are printed as Kafka's scripts print them."""
    try:
        stopped = stop_servers(script, wanted)
    except (OSError, ValueError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    if not stopped:
        print(f"No {kind} server to stop")
        return 1
    return 0


def signal_number() -> signal.Signals:
    """`TERM`, `SIGTERM` or 15; ValueError if it is not a signal."""
    text = os.environ.get(SIGNAL, "TERM")
    try:
        if text.isdecimal():
            return signal.Signals(int(text))
        return signal.Signals[text if text.startswith("SIG") else f"SIG{text}"]
    except (KeyError, ValueError):
        raise ValueError(f"{SIGNAL}={text}: there is no such signal") from None


def broker_details(words: Sequence[str]) -> dict[str, str]:
    """The details that kafka-server-stop can select by: node.id and process.roles."""
    from ottla.config import parse_properties

    properties: dict[str, str] = {}
    for index, word in enumerate(words):
        if word == "--override" and index + 1 < len(words):
            name, _, value = words[index + 1].partition("=")
            properties[name.strip()] = value.strip()
        elif word.startswith("--override="):
            name, _, value = word.removeprefix("--override=").partition("=")
            properties[name.strip()] = value.strip()
        elif not word.startswith("-") and words[index - 1] != "--override":
            try:
                with open(word, encoding="utf-8") as file:
                    properties = {**parse_properties(file.read()), **properties}
            except (OSError, ValueError):
                return {}  # the server will report the error
    node = properties.get(NODE_ID, properties.get("broker.id", ""))
    return {NODE_ID: node, ROLES: properties.get(ROLES, "")}

"""Servers that the start scripts have started are recorded, so that the stop scripts find them.

Kafka's stop scripts look for a pattern in the list of all processes, and so hit whatever looks
alike. Here only what was started by the script of this installation is ended.
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

SIGNAL: Final = "SIGNAL"  # the variable that Kafka's scripts look at
NODE_ID, ROLES = "node.id", "process.roles"


def record_server(
    script: str, process: ProcessIdentity | None, details: Mapping[str, str]
) -> RunRecord | None:
    """None, and a line on standard error, where no record can be written: the server starts."""
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
def recorded(script: str, details: Mapping[str, str]) -> Iterator[None]:
    """This process is the server."""
    record = record_server(script, own_identity(), details)
    try:
        yield
    finally:
        if record is not None:
            RunRecords().remove(record)


def record_daemon(script: str, pid: int, details: Mapping[str, str]) -> None:
    record_server(script, identity_of(pid), details)


def stop_servers(script: str, wanted: Mapping[str, str]) -> list[RunRecord]:
    """Send $SIGNAL, or SIGTERM, to those that have all the `wanted` details; who was reached."""
    number = signal_number()
    found = [
        record
        for record in RunRecords().alive(script)
        if all(record.details.get(name) == value for name, value in wanted.items())
    ]
    return [record for record in found if record.process.send(number)]


def signal_number() -> signal.Signals:
    """`TERM`, `SIGTERM` or 15. ValueError says what is wrong with it."""
    text = os.environ.get(SIGNAL, "TERM")
    try:
        if text.isdecimal():
            return signal.Signals(int(text))
        return signal.Signals[text if text.startswith("SIG") else f"SIG{text}"]
    except (KeyError, ValueError):
        raise ValueError(f"{SIGNAL}={text}: there is no such signal") from None


def broker_details(words: Sequence[str]) -> dict[str, str]:
    """What kafka-server-stop can choose by, of a file and overrides: node.id and process.roles."""
    from ottla.config import parse_properties

    properties: dict[str, str] = {}
    for place, word in enumerate(words):
        if word == "--override" and place + 1 < len(words):
            name, _, value = words[place + 1].partition("=")
            properties[name.strip()] = value.strip()
        elif word.startswith("--override="):
            name, _, value = word.removeprefix("--override=").partition("=")
            properties[name.strip()] = value.strip()
        elif not word.startswith("-") and words[place - 1] != "--override":
            try:
                with open(word, encoding="utf-8") as file:
                    properties = {**parse_properties(file.read()), **properties}
            except (OSError, ValueError):
                return {}  # the server says what is wrong with it
    node = properties.get(NODE_ID, properties.get("broker.id", ""))
    return {NODE_ID: node, ROLES: properties.get(ROLES, "")}

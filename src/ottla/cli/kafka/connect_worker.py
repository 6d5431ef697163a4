"""The common part of Connect's three start scripts: files, -daemon, errors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import ottla
from ottla.cli.extras import require_spark
from ottla.cli.kafka.daemon import start_daemon
from ottla.cli.kafka.tool import ToolError, explain, read_properties
from ottla.errors import KafkaError


def connect_worker_main(
    name: str, usage: str, module: str, words: Sequence[str], *, alone: bool = False
) -> int:
    """Start a worker from its properties; a standalone one also gets connectors' files."""

    def work(files: list[str]) -> int:
        from ottla.connect.worker_process import run_worker_process

        properties, *connectors = files
        if connectors and not alone:
            raise ToolError(f"{usage}\nA distributed worker's connectors come over REST.")
        config = {"bootstrap.servers": "localhost:9092", **read_properties(properties)}
        return run_worker_process(
            config, [Path(connector) for connector in connectors], alone=alone
        )

    return start_script(name, usage, module, list(words), work)


def start_script(
    name: str, usage: str, module: str, words: list[str], work: Callable[[list[str]], int]
) -> int:
    if words[:1] == ["--version"]:
        print(ottla.__version__)
        return 0
    daemon = words[:1] == ["-daemon"]
    files = words[1:] if daemon else words
    if not files or files[0] in ("-h", "--help"):
        print(usage, file=sys.stderr)
        return 1
    if daemon:
        start_daemon([sys.executable, "-m", module, *files], f"{name}.out")
        return 0
    try:
        require_spark(name)
        from ottla.connect.errors import ConnectException
        from ottla.connect.worker_process import log_to_terminal

        log_to_terminal(verbose=False)
        try:
            return work(files)
        except ConnectException as error:
            raise ToolError(str(error)) from None
    except (ToolError, KafkaError) as error:
        print(explain(error), file=sys.stderr)
        return 1

"""The frame of every tool: usage, versions, files, broken pipes, Ctrl-C."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import ottla
from ottla.cli.kafka.exceptions import describe
from ottla.cli.kafka.options import HELP, VERSION, Option, Options, UsageError, usage
from ottla.config import parse_properties
from ottla.errors import ErrorCode, KafkaError

INTERRUPTED: Final = 130
KAFKA_VERSION: Final = "4.4"


class ToolError(Exception):
    """A failure of the tool; printed as it is."""


def run(
    name: str,
    description: str,
    options: Sequence[Option],
    work: Callable[[Options], int],
    arguments: Sequence[str] | None = None,
) -> int:
    """Parse, work, and turn every failure into Kafka's output and exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    known = (*options, HELP, VERSION)
    log_to_stderr()
    try:
        if not words:
            raise UsageError(description)
        parsed = Options(known, words)
        if parsed.has("help"):
            raise UsageError(description)
        if parsed.has("version"):
            print(f"{KAFKA_VERSION}-ottla-{ottla.__version__}")
            return 0
        code = work(parsed)
        sys.stdout.flush()
        return code
    except UsageError as error:
        print(f"{error}\n{usage(known)}", file=sys.stderr)
        return 1
    except (ToolError, KafkaError) as error:
        print(explain(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return broken_pipe()


def broken_pipe() -> int:
    """The reader of our output is gone; keep Python from failing again while it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def explain(error: Exception) -> str:
    """An error for people: what happened, and the remedy if it is known."""
    if not isinstance(error, KafkaError):
        return str(error)
    if error.code == ErrorCode.BROKER_NOT_AVAILABLE:
        return f"{error}\nIs the broker running there? `ottla serve` starts one on localhost:9092."
    return describe(error)


def log_error(tool: str, message: str) -> None:
    """A log line in the format of Kafka's tools."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    print(f"[{stamp},{int(now * 1000) % 1000:03d}] ERROR {message} ({tool})", file=sys.stderr)


def log_to_stderr() -> None:
    """The client's own warnings, in Kafka's format."""
    logger = logging.getLogger("ottla.client")
    if not logger.handlers:
        handler = logging.StreamHandler()
        form = "[%(asctime)s] WARN %(message)s (%(name)s)"  # the client logs nothing worse
        handler.setFormatter(logging.Formatter(form))
        logger.addHandler(handler)
        logger.propagate = False


def read_properties(path: str | None) -> dict[str, str]:
    """A properties file; empty for None."""
    if path is None:
        return {}
    try:
        return parse_properties(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ToolError(f"Unable to read file {path}: {error.strerror}") from None
    except ValueError as error:
        raise ToolError(f"Unable to read file {path}: {error}") from None

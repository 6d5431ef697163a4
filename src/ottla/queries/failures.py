"""Why a query failed, and whether a restart can help.

Spark's exceptions carry the original Python or Java error as text only, so `failure_of` matches
text. It is the only place that does; all other code sees a typed `QueryFailure`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

CAUSE_CHARACTERS_MAX: Final = 2000
BRIEF_CHARACTERS_MAX: Final = 1500


class FailureClass(StrEnum):
    RETRIABLE = "retriable"
    """Transient: an unavailable broker, a timeout."""
    FATAL = "fatal"
    """The next run would fail in the same way."""
    UNKNOWN = "unknown"
    """Not classified: a few restarts will show."""
    SUPERSEDED = "superseded"
    """Another process runs the same query."""


@dataclass(frozen=True, slots=True)
class QueryFailure:
    """`cause` is for users; `text` is the whole message, with a stack trace if there is one."""

    kind: FailureClass
    cause: str
    text: str = ""
    refused_topics: frozenset[str] = frozenset()
    """Topics that rejected the sink's writes: members that write to them caused the failure."""
    task: int | None = None
    """The connector task that caused the failure."""


class FailedRun(Exception):
    """A Spark query ended with an error; the message is Spark's."""


def failure_of(error: BaseException) -> QueryFailure:
    text = text_of(error)
    return QueryFailure(class_of(text), cause_of(error), text, refused_topics(text))


def refused_topics(text: str) -> frozenset[str]:
    """The topics that the sink's error messages name."""
    return frozenset(name for found in _REFUSED.finditer(text) for name in found.groups() if name)


_REFUSED: Final = re.compile(
    r"topic ([\w.-]+): [A-Z_]+"
    r"|(?<![\w.-])([\w.-]+)-\d+: [A-Z_]+"
    r"|there is no topic ([\w.-]+)"
)

# Matched against the text of the whole chain of causes; the first match decides.
_FATAL: Final = (
    r"AnalysisException",
    r"ParseException",
    r"UNRESOLVED_",
    r"UNKNOWN_TOPIC_OR_PARTITION",
    r"UnknownTopicOrPartition",
    r"data ?loss",
    r"failOnDataLoss",
    r"Some data may have been lost",
    r"TOPIC_AUTHORIZATION_FAILED",
    r"AUTHENTICATION_FAILED",
    r"STATE_STORE_.*SCHEMA",
    r"STREAMING_STATEFUL_OPERATOR_NOT_MATCH",
    r"OptionError",
    r"MESSAGE_TOO_LARGE",
    r"RECORD_TOO_LARGE",
    r"no such topic",
    r"checkpoint is older than the output",
    r"\bStreamsError\b",  # a topology failed: its uncaught exception handler decides
)
_RETRIABLE: Final = (
    r"NETWORK_EXCEPTION",
    r"BROKER_NOT_AVAILABLE",
    r"NOT_LEADER_OR_FOLLOWER",
    r"LEADER_NOT_AVAILABLE",
    r"COORDINATOR_(NOT_AVAILABLE|LOAD_IN_PROGRESS)",
    r"NOT_COORDINATOR",
    r"CONCURRENT_TRANSACTIONS",
    r"REQUEST_TIMED_OUT",
    r"PRODUCER_FENCED",
    r"INVALID_PRODUCER_EPOCH",
    r"KAFKA_STORAGE_ERROR",
    r"NOT_ENOUGH_REPLICAS",
    r"Connection ?(refused|reset|aborted|Error)",
    r"ConnectionError|ConnectionRefusedError|ConnectionResetError|BrokenPipe",
    r"[Tt]imed? ?out|TimeoutError",
    r"fenced",
    r"Py4JNetworkError",  # Spark's JVM has exited; it is started again
    r"Python worker (exited unexpectedly|failed to connect back)",
    r"CANNOT_OPEN_SOCKET",
    r"No space left on device",
)


def text_of(error: BaseException) -> str:
    """The type and message of an error. A Java error fetches its message from the JVM, which may
    have exited."""
    try:
        return f"{type(error).__name__} {error}"
    except Exception as reason:
        return f"{type(error).__name__}, without a message from Java: {type(reason).__name__}"


def class_of(text: str) -> FailureClass:
    for patterns, found in ((_FATAL, FailureClass.FATAL), (_RETRIABLE, FailureClass.RETRIABLE)):
        if any(re.search(pattern, text) for pattern in patterns):
            return found
    return FailureClass.UNKNOWN


def cause_of(error: BaseException | str | None) -> str:
    """The cause for users: the innermost error first, without the JVM's stack trace."""
    try:
        text = str(error or "").strip()
    except Exception:
        text = text_of(error) if isinstance(error, BaseException) else ""
    lines = [line.rstrip() for line in text.splitlines()]
    telling = [line for line in lines if line.strip() and not _NOISE.match(line)]
    innermost = [line.strip() for line in telling if _PYTHON_ERROR.match(line.strip())]
    first = telling[0].strip().lstrip(": ") if telling else "unknown"
    first = first.removesuffix("Traceback (most recent call last):").rstrip(" :") or "unknown"
    if innermost and innermost[-1] not in first:
        first = f"{innermost[-1]} ({first})"
    return first[:CAUSE_CHARACTERS_MAX]


def brief(error: BaseException) -> str:
    """The message without stack traces: its beginning, and its end, which has the reason."""
    kind = type(error)
    try:
        text = f"{kind.__module__}.{kind.__qualname__}: {error}"
    except Exception:
        text = text_of(error)
    lines = [line for line in text.splitlines() if line.strip() and not _NOISE.match(line)]
    kept = "\n".join(lines)
    if len(kept) <= BRIEF_CHARACTERS_MAX:
        return kept
    half = BRIEF_CHARACTERS_MAX // 2
    return f"{kept[:half]}\n[...]\n{kept[-half:]}"


_NOISE: Final = re.compile(
    r"^\s*(at |\.\.\. \d+ more|File \"|Traceback|=== |JVM stacktrace|An error occurred while)"
)
_PYTHON_ERROR: Final = re.compile(r"^[A-Za-z_][\w.]*(Error|Exception|Failure|Lost)\b.*:")

"""Why a query failed, and whether it is worth another try.

`failure_of` is the only place where the text of an error is matched: what Spark raises carries an
error of Python's, or of Java's, as text. From there on a failure is a `QueryFailure`.
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
    """It goes away by itself: the broker is away, somebody was slow."""
    FATAL = "fatal"
    """The next run would fail as well."""
    UNKNOWN = "unknown"
    """A few restarts will show it."""
    SUPERSEDED = "superseded"
    """Another process runs the same query."""


@dataclass(frozen=True, slots=True)
class QueryFailure:
    """`cause` is for people. `text` is all that was said, with the stack where there is one."""

    kind: FailureClass
    cause: str
    text: str = ""
    refused_topics: frozenset[str] = frozenset()
    """Those that the sink can't write to: members that write there are to blame."""
    task: int | None = None
    """The task of a connector that is to blame."""


class RunFailed(Exception):
    """A Spark query ended with an error, which is the message."""


def failure_of(error: BaseException) -> QueryFailure:
    text = text_of(error)
    return QueryFailure(class_of(text), cause_of(error), text, refused_topics(text))


def refused_topics(text: str) -> frozenset[str]:
    """The topics that the words of the sink are about."""
    return frozenset(name for found in _REFUSED.finditer(text) for name in found.groups() if name)


_REFUSED: Final = re.compile(
    r"topic ([\w.-]+): [A-Z_]+"
    r"|(?<![\w.-])([\w.-]+)-\d+: [A-Z_]+"
    r"|there is no topic ([\w.-]+)"
)

# Looked for in the text of the whole chain of causes; the first that is found decides.
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
    r"\bStreamsError\b",  # the topology of an application: its handler decides
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
    r"Py4JNetworkError",  # Spark's JVM has gone; it is started again
    r"Python worker (exited unexpectedly|failed to connect back)",
    r"CANNOT_OPEN_SOCKET",
    r"No space left on device",
)


def text_of(error: BaseException) -> str:
    """An error of Java's asks the JVM for its words: it has none if that has gone."""
    try:
        return f"{type(error).__name__} {error}"
    except Exception as reason:
        return f"{type(error).__name__}, and Java does not say more: {type(reason).__name__}"


def class_of(text: str) -> FailureClass:
    for patterns, found in ((_FATAL, FailureClass.FATAL), (_RETRIABLE, FailureClass.RETRIABLE)):
        if any(re.search(pattern, text) for pattern in patterns):
            return found
    return FailureClass.UNKNOWN


def cause_of(error: BaseException | str | None) -> str:
    """What to tell people: the innermost reason first, without the stack of the JVM."""
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
    """Its words without the stacks in them: the beginning, and the end, where the reason is."""
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

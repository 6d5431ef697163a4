"""Why a query failed, and whether it is worth another try."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

CAUSE_CHARACTERS_MAX: Final = 2000
BRIEF_CHARACTERS_MAX: Final = 1500


class Verdict(Enum):
    PASSING = "passing"
    """It will go away by itself: the broker is away, somebody was slow."""
    LASTING = "lasting"
    """The next try would fail as well."""
    UNKNOWN = "unknown"
    """A few tries will tell."""


# Looked for in the text of the whole chain of causes; the first that is found decides.
_LASTING: Final = (
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
_PASSING: Final = (
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


def verdict(cause: str) -> Verdict:
    for patterns, found in ((_LASTING, Verdict.LASTING), (_PASSING, Verdict.PASSING)):
        if any(re.search(each, cause) for each in patterns):
            return found
    return Verdict.UNKNOWN


def cause_of(error: BaseException | str | None) -> str:
    """What to tell people: the innermost reason first, without the stack of the JVM."""
    try:
        text = str(error or "").strip()
    except Exception:
        text = text_of(error) if isinstance(error, BaseException) else ""
    lines = [each.rstrip() for each in text.splitlines()]
    telling = [each for each in lines if each.strip() and not _NOISE.match(each)]
    innermost = [each.strip() for each in telling if _PYTHON_ERROR.match(each.strip())]
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
    lines = [each for each in text.splitlines() if each.strip() and not _NOISE.match(each)]
    kept = "\n".join(lines)
    if len(kept) <= BRIEF_CHARACTERS_MAX:
        return kept
    half = BRIEF_CHARACTERS_MAX // 2
    return f"{kept[:half]}\n[...]\n{kept[-half:]}"


_NOISE: Final = re.compile(
    r"^\s*(at |\.\.\. \d+ more|File \"|Traceback|=== |JVM stacktrace|An error occurred while)"
)
_PYTHON_ERROR: Final = re.compile(r"^[A-Za-z_][\w.]*(Error|Exception|Failure|Lost)\b.*:")

"""Checks for optional dependencies, before a verb imports anything."""

from __future__ import annotations

from ottla.cli.kafka.tool import ToolError
from ottla.extras import EXTRAS, missing_of, missing_words


def require_spark(verb: str) -> None:
    """The first call of every verb that needs Spark."""
    require_extra(verb, "spark")


def require_extra(verb: str, extra: str) -> None:
    missing = missing_of(EXTRAS[extra])
    if missing:
        raise ToolError(missing_words(f"`{verb}`", missing, extra))

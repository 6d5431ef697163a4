"""What a verb needs beyond the plain installation; said before anything is imported."""

from __future__ import annotations

from ottla.cli.kafka.tool import ToolError
from ottla.extras import EXTRAS, missing_of, missing_words


def need_spark(verb: str) -> None:
    """Every verb of the pipeline calls this first."""
    need(verb, "spark")


def need(verb: str, extra: str) -> None:
    missing = missing_of(EXTRAS[extra])
    if missing:
        raise ToolError(missing_words(f"`{verb}`", missing, extra))

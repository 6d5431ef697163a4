"""Times on the command line, as positions in a log."""

from __future__ import annotations

import typer

from ottla.cli.kafka.group_offsets import parse_datetime
from ottla.cli.kafka.tool import ToolError


def parse_timestamp(text: str, option: str, words: str) -> int:
    """Milliseconds since 1970 of an ISO time or date; the error says what `option` accepts."""
    try:
        return parse_datetime(text if "T" in text else f"{text}T00:00")
    except ToolError:
        known = f"{words}, or a time such as 2026-01-31T12:00"
        raise typer.BadParameter(f"{option} takes {known}, not {text!r}") from None

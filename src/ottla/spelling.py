"""The known name nearest to an unknown one, for error messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

ALIKE: Final = 0.75
"""How alike two names must be, from 0 to 1: `linger.m` and `linger.ms` are."""


def nearest_spelling(name: str, known: Iterable[str], alike: float = ALIKE) -> str | None:
    """The known name that is most like `name`, regardless of case."""
    from difflib import get_close_matches  # only errors need it

    names = {known_name.lower(): known_name for known_name in known}
    found = get_close_matches(name.lower(), names, n=1, cutoff=alike)
    return names[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str], alike: float = ALIKE) -> str:
    """`; did you mean linger.ms?`, for the end of a sentence; empty if no name is near."""
    found = nearest_spelling(name, known, alike)
    return "" if found is None else f"; did you mean {found}?"

"""Limits on the cost of one schema. A schema is input from a stranger.

Time is limited by counting steps, not by a clock, so that the same schema always gets the same
answer. With these numbers the worst case takes less than a second of one core
(docs/decisions/0034-schema-languages.md has the measurements).
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.schemas.invalid_schema import InvalidSchema

# The text of a schema together with the texts of all its references.
TEXT_CHARS_MAX = 1 << 19
# Nesting of brackets, in JSON as well as in .proto text.
TEXT_DEPTH_MAX = 400
# Nesting of types, after names are resolved.
TYPE_DEPTH_MAX = 100
# Types, fields, keywords: everything that a parser creates an object for.
NODES_MAX = 100_000
# Nesting of pairs of types; deeper ones are compared later (compatibility/pairs.py).
PAIR_DEPTH_MAX = 50
# Pairs of an old and a new type that one check compares.
STEPS_MAX = 25_000
# Differences that one answer lists.
DIFFERENCES_MAX = 1_000


class TooComplex(Exception):
    """A check has used up its steps."""


def check_limits(text: str, references: Mapping[str, str]) -> None:
    """Refuse a schema that is too long together with its references."""
    size = len(text) + sum(len(other) for other in references.values())
    if size > TEXT_CHARS_MAX:
        raise InvalidSchema(
            f"the schema and its references have {size} characters, the limit is {TEXT_CHARS_MAX}"
        )

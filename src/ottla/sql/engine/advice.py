"""Remedies for failed queries, in terms of SQL statements."""

from __future__ import annotations

import re
from typing import Final

# The first pattern found in the cause wins.
_ADVICE: Final = (
    (
        r"Some data may have been missed",
        "Records were deleted before the query read them: TERMINATE it and create it again.",
    ),
    (
        r"UNKNOWN_TOPIC_OR_PARTITION|there is no topic|no such topic",
        "Create the topic again, then RESUME {id}; or TERMINATE {id};",
    ),
    (
        r"STATE_STORE_\w*SCHEMA",
        "An earlier version of Ottla wrote its state in another format:"
        " TERMINATE {id}; and create it again.",
    ),
    (r"AUTHORIZATION_FAILED|AUTHENTICATION_FAILED", "Check the server's rights, then RESUME {id};"),
    (r"(MESSAGE|RECORD)_TOO_LARGE", "Raise max.message.bytes of the topic, then RESUME {id};"),
)
_OF_THE_SOURCE: Final = re.compile(
    r"\.? *If the query is to go on, set the source option \"failOnDataLoss\" to \"false\""
)


def advised(query_id: str, cause: str) -> str:
    """The cause and, where one is known, a remedy. Spark's own advice is cut off: SQL users can't
    set its options."""
    for pattern, words in _ADVICE:
        if re.search(pattern, cause):
            plain = _OF_THE_SOURCE.sub("", cause)
            return f"{plain}\n{words.format(id=query_id)}"
    return cause

"""What to do about a query that has failed, in the words of the SQL."""

from __future__ import annotations

import re
from typing import Final

# The first that is found in the cause.
_ADVICE: Final = (
    (
        r"Some data may have been missed",
        "What it had not read yet is gone: TERMINATE it and create it again, to begin anew.",
    ),
    (
        r"UNKNOWN_TOPIC_OR_PARTITION|there is no topic|no such topic",
        "Create the topic again, then RESUME {id}; or TERMINATE {id};",
    ),
    (
        r"STATE_STORE_\w*SCHEMA",
        "Its state was kept in another way by an earlier version of Ottla, and can't be gone on"
        " with: TERMINATE {id}; and create it again, to begin anew.",
    ),
    (r"AUTHORIZATION_FAILED|AUTHENTICATION_FAILED", "Check the server's rights, then RESUME {id};"),
    (r"(MESSAGE|RECORD)_TOO_LARGE", "Raise max.message.bytes of the topic, then RESUME {id};"),
)
_OF_THE_SOURCE: Final = re.compile(
    r"\.? *If the query is to go on, set the source option \"failOnDataLoss\" to \"false\""
)


def advised(query_id: str, cause: str) -> str:
    """The cause, and a remedy where one is known. The source's own is none of the SQL's."""
    for pattern, words in _ADVICE:
        if re.search(pattern, cause):
            plain = _OF_THE_SOURCE.sub("", cause)
            return f"{plain}\n{words.format(id=query_id)}"
    return cause

"""Names of subjects, and their contexts.

orders-value          in the default context, whose name is "."
:.sales:orders-value  in the context .sales
:.sales:              the context itself, for a config or a mode of all its subjects
:*:                   every context, as a search prefix
"""

from __future__ import annotations

from typing import Final

from ottla.registry.registry_error import invalid_subject

DEFAULT_CONTEXT: Final = "."
EVERY_CONTEXT: Final = ":*:"
GLOBAL_CONTEXT: Final = ":.__GLOBAL:"
RESERVED: Final = ("__GLOBAL", "__EMPTY")
PREFIX: Final = ":."


def split(subject: str) -> tuple[str, str]:
    """The context, and the name within it."""
    if subject.startswith(PREFIX):
        context, colon, name = subject[1:].partition(":")
        if colon:
            return context, name
        return context, ""
    return DEFAULT_CONTEXT, subject


def context_of(subject: str) -> str:
    return split(subject)[0]


def qualified(context: str, name: str) -> str:
    """The stored form: subjects of the default context have no prefix."""
    return name if context == DEFAULT_CONTEXT else f":{context}:{name}"


def stored_name(subject: str) -> str:
    """`:.:orders` is `orders`."""
    return qualified(*split(subject))


def relative_to(parent: str, subject: str) -> str:
    """A reference's subject: in the context of the referring schema, unless it names another."""
    if subject.startswith(PREFIX):
        return stored_name(subject)
    return qualified(context_of(parent), subject)


def context_name(text: str) -> str:
    """`sales` and `.sales` are the same context in a path."""
    text = text.strip(":")
    return text if text.startswith(".") else f".{text}"


def check_registrable(subject: str) -> str:
    """The global context has a config and a mode, but no schemas."""
    if subject.startswith(GLOBAL_CONTEXT):
        raise invalid_subject(subject)
    return subject


def check_subject(subject: str) -> str:
    name = split(subject)[1]
    if name in RESERVED or any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in subject):
        raise invalid_subject(subject)
    return stored_name(subject)

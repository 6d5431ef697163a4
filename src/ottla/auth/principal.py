"""A principal: what a connection has proven to be, and what ACLs and quotas speak of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

USER_TYPE: Final = "User"


@dataclass(slots=True, frozen=True)
class Principal:
    """`User:alice`. The name may hold anything, colons and commas of a TLS subject included."""

    type: str
    name: str
    # Proven by a delegation token. No part of who it is: ACLs and quotas do not look at it.
    token_authenticated: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if not self.type:
            raise ValueError("a principal needs a type")

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Principal:
        """`Type:name`; ValueError for what is not in that form."""
        kind, colon, name = text.partition(":")
        if not colon or not kind or not name:
            raise ValueError(f"expected a string in format principalType:principalName: {text}")
        return cls(kind, name)


ANONYMOUS: Final = Principal(USER_TYPE, "ANONYMOUS")


def user(name: str) -> Principal:
    return Principal(USER_TYPE, name)

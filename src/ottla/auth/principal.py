"""Principals: the identity that a connection has proven, to which ACLs and quotas apply."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

USER_TYPE: Final = "User"


@dataclass(slots=True, frozen=True)
class Principal:
    """`User:alice`. The name may contain anything, even the colons and commas of a TLS subject."""

    type: str
    name: str
    # Authenticated by a delegation token. Not part of the identity: ACLs and quotas ignore it.
    token_authenticated: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if not self.type:
            raise ValueError("a principal needs a type")

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Principal:
        """`Type:name`; ValueError for any other form."""
        kind, colon, name = text.partition(":")
        if not colon or not kind or not name:
            raise ValueError(f"expected a string in format principalType:principalName: {text}")
        return cls(kind, name)


ANONYMOUS: Final = Principal(USER_TYPE, "ANONYMOUS")


def user(name: str) -> Principal:
    return Principal(USER_TYPE, name)

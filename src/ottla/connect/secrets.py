"""Secrets of connectors' configs: REST answers never show them (CVE-2019-12399).

A secret is a setting of the type PASSWORD, one whose name says so, or a URL with a login in it
(`https://ann:pw@host`). A reference to a config provider (`${file:...}`) is shown: it is no secret.
A client that reads a config, changes it and puts it back sends the mask along; the mask then stands
for the value that there was.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from ottla.connect.providers import REFERENCE

HIDDEN: Final = "[hidden]"  # Kafka's own word

_SECRET: Final = re.compile(
    r"(^|[._-])(password|passwd|passphrase|secret|token|jaas|credentials?)([._-]|$)"
    r"|keystore\.key$|private[._]key|api[._]key$|user\.info$",
    re.IGNORECASE,
)
_LOGIN: Final = re.compile(r"://[^/@\s]*:[^/@\s]+@")


def is_secret(name: str) -> bool:
    """By its name alone."""
    return _SECRET.search(name) is not None


def masked(config: Mapping[str, str], passwords: Collection[str] = ()) -> dict[str, str]:
    """`passwords` are the settings that a plugin defines as such."""
    return {
        name: HIDDEN if value and _hides(name, value, passwords) else value
        for name, value in config.items()
    }


def unmasked(config: Mapping[str, str], kept: Mapping[str, str]) -> dict[str, str]:
    """A config that was read, changed and sent back, with its secrets again."""
    return {
        name: kept.get(name, value) if value == HIDDEN else value for name, value in config.items()
    }


def _hides(name: str, value: str, passwords: Collection[str]) -> bool:
    secret = name in passwords or is_secret(name) or _LOGIN.search(value) is not None
    return secret and not REFERENCE.search(value)

"""Secrets of connectors' configs: REST answers never show them (CVE-2019-12399).

A secret is a setting of type PASSWORD, one whose name suggests a secret, or a URL with credentials
(`https://ann:pw@host`). A reference to a config provider (`${file:...}`) is shown, because it is
not secret. A client that reads a config, changes it and puts it back sends the mask along, which
then stands for the stored value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from ottla.connect.config_providers import REFERENCE

HIDDEN: Final = "[hidden]"  # Kafka's own word

_SECRET: Final = re.compile(
    r"(^|[._-])(password|passwd|passphrase|secret|token|jaas|credentials?)([._-]|$)"
    r"|keystore\.key$|private[._]key|api[._]key$|user\.info$",
    re.IGNORECASE,
)
_LOGIN: Final = re.compile(r"://[^/@\s]*:[^/@\s]+@")


def is_secret(name: str) -> bool:
    """Decided by the name only."""
    return _SECRET.search(name) is not None


def masked(config: Mapping[str, str], passwords: Collection[str] = ()) -> dict[str, str]:
    """`passwords`: the settings that the plugin defines with type PASSWORD."""
    return {
        name: HIDDEN if value and _is_masked(name, value, passwords) else value
        for name, value in config.items()
    }


def unmasked(config: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """Restores the stored secrets in a config that was read, changed and sent back."""
    return {
        name: stored.get(name, value) if value == HIDDEN else value
        for name, value in config.items()
    }


def _is_masked(name: str, value: str, passwords: Collection[str]) -> bool:
    secret = name in passwords or is_secret(name) or _LOGIN.search(value) is not None
    return secret and not REFERENCE.search(value)

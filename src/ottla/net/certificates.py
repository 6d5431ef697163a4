"""What is asked of a listener's own certificate: its subject, and its alternative names."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from typing import Final

from ottla.auth.distinguished_name import elements, identifier, subject_name

ALTERNATIVE_NAMES: Final = "2.5.29.17"
EXTENSIONS: Final = 0xA3
BOOLEAN: Final = 0x01

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(slots=True, frozen=True)
class Certificate:
    """`subject` as Java writes it; `alternative_names` are compared, never read."""

    subject: str
    alternative_names: frozenset[bytes]


def read_certificate(der: bytes) -> Certificate:
    """ValueError for bytes that are no certificate."""
    return Certificate(subject_name(der), _alternative_names(der))


def certificates_of(pem: str) -> list[bytes]:
    """The certificates of a PEM text, in its order, as DER."""
    return [ssl.PEM_cert_to_DER_cert(each) for each in _PEM.findall(pem)]


def _alternative_names(der: bytes) -> frozenset[bytes]:
    body = elements(elements(der)[0].content)[0]
    for field in elements(body.content):
        if field.tag != EXTENSIONS:
            continue
        for extension in elements(elements(field.content)[0].content):
            kind, *rest = [each for each in elements(extension.content) if each.tag != BOOLEAN]
            if identifier(kind.content) == ALTERNATIVE_NAMES:
                names = elements(elements(rest[0].content)[0].content)
                return frozenset(each.whole for each in names)
    return frozenset()

"""A listener's own certificate: its subject and its alternative names."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from typing import Final

from ottla.auth.distinguished_name import distinguished_name, elements, identifier

ALTERNATIVE_NAMES: Final = "2.5.29.17"
EXTENSIONS: Final = 0xA3
BOOLEAN: Final = 0x01

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(slots=True, frozen=True)
class Certificate:
    """`subject` as Java writes it; `alternative_names` as bytes, which are only compared."""

    subject: str
    alternative_names: frozenset[bytes]


def read_certificate(der: bytes) -> Certificate:
    """ValueError if the bytes are not a certificate."""
    return Certificate(distinguished_name(der), _alternative_names(der))


def certificates_of(pem: str) -> list[bytes]:
    """The certificates of a PEM text in their order, as DER."""
    return [ssl.PEM_cert_to_DER_cert(certificate) for certificate in _PEM.findall(pem)]


def _alternative_names(der: bytes) -> frozenset[bytes]:
    body = elements(elements(der)[0].content)[0]
    for field in elements(body.content):
        if field.tag != EXTENSIONS:
            continue
        for extension in elements(elements(field.content)[0].content):
            kind, *rest = [part for part in elements(extension.content) if part.tag != BOOLEAN]
            if identifier(kind.content) == ALTERNATIVE_NAMES:
                names = elements(elements(rest[0].content)[0].content)
                return frozenset(name.whole for name in names)
    return frozenset()

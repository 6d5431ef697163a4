"""Keys and certificates from PEM files, PEM text in the configuration, or PKCS12; all become PEM.

JKS, Java's own format, is refused with the commands that convert it to PEM.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.config import ConfigError, StoreSettings
from ottla.extras import install_command

JKS_MAGIC: Final = bytes.fromhex("feedfeed")
PEM_START: Final = b"-----BEGIN"
FILE_BYTES_MAX: Final = 4 * 1024 * 1024  # a system's whole bundle of authorities has 0.2

_KEY: Final = re.compile(
    r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----.+?-----END (?:[A-Z]+ )*PRIVATE KEY-----", re.DOTALL
)
_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)


@dataclass(slots=True, frozen=True)
class KeyPair:
    """A private key and its certificate chain, the leaf first. PEM."""

    key: str
    chain: str
    password: str | None


def read_keystore(store: StoreSettings) -> KeyPair | None:
    """None if no keystore is configured; ConfigError says what is wrong with it."""
    if store.key or store.certificates:
        return _inline(store)
    data = _read(store)
    if data is None:
        return None
    if _kind(store, data) == "PKCS12":
        return _keystore_of_pkcs12(store, data)
    if store.password:
        raise _wrong(store, "password", "a PEM keystore has no password, only ssl.key.password")
    text = data.decode("utf-8", "replace")
    return _key_pair(text, text, store, store.location or "")


def read_truststore(store: StoreSettings) -> str | None:
    """The trusted certificates as PEM text; None if no truststore is configured."""
    if store.certificates:
        _check_inline(store)
        return _certificates(store.certificates, store, "certificates")
    data = _read(store)
    if data is None:
        return None
    if _kind(store, data) == "PKCS12":
        return _truststore_of_pkcs12(store, data)
    return _certificates(data.decode("utf-8", "replace"), store, "location")


def _inline(store: StoreSettings) -> KeyPair:
    """PEM text in the configuration (KIP-651)."""
    _check_inline(store)
    if not store.key or not store.certificates:
        names = "ssl.keystore.key and ssl.keystore.certificate.chain"
        raise _wrong(store, "key", f"{names} must be set together")
    return _key_pair(store.key, store.certificates, store, "ssl.keystore.key")


def _check_inline(store: StoreSettings) -> None:
    if store.location:
        raise _wrong(store, "location", "there is PEM text beside it: set one of the two")
    if (store.type or "PEM").upper() != "PEM":
        raise _wrong(store, "type", "must be PEM where certificates stand in the configuration")
    if store.password:
        raise _wrong(store, "password", "PEM text has no password, only ssl.key.password")


def _key_pair(key_text: str, chain_text: str, store: StoreSettings, where: str) -> KeyPair:
    """In a properties file PEM text is often one line, with blanks in place of line ends."""
    key = _KEY.search(_lines(key_text))
    chain = _CERTIFICATE.findall(_lines(chain_text))
    if key is None or not chain:
        missing = "private key" if key is None else "certificate"
        raise _wrong(store, "location" if store.location else "key", f"no {missing} in {where}")
    return KeyPair(key.group(), "\n".join(chain) + "\n", store.key_password)


def _certificates(text: str, store: StoreSettings, name: str) -> str:
    found = _CERTIFICATE.findall(_lines(text))
    if not found:
        raise _wrong(store, name, "there is no certificate in it")
    return "\n".join(found) + "\n"


def _lines(text: str) -> str:
    """OpenSSL needs line ends around the base64, and lines of at most 76 characters."""

    def broken(match: re.Match[str]) -> str:
        body = "\n".join(match["body"].split())
        return f"-----BEGIN {match['name']}-----\n{body}\n-----END {match['name']}-----"

    return re.sub(
        r"-----BEGIN (?P<name>[A-Z ]+)-----(?P<body>[A-Za-z0-9+/=\s]+)-----END (?P=name)-----",
        broken,
        text,
    )


def _read(store: StoreSettings) -> bytes | None:
    if not store.location:
        return None
    try:
        with Path(store.location).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise _wrong(store, "location", f"{os.strerror(error.errno or 0)}") from error
    if len(data) > FILE_BYTES_MAX:
        raise _wrong(store, "location", f"it has more than {FILE_BYTES_MAX} bytes")
    return data


def _kind(store: StoreSettings, data: bytes) -> str:
    """PEM or PKCS12, by the contents of the file if no type is set."""
    kind = (store.type or "").upper()
    if data.startswith(JKS_MAGIC) or (kind == "JKS" and PEM_START not in data):
        path = store.location
        raise _wrong(
            store,
            "location",
            "JKS is not supported; this converts it to PEM:"
            f" keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12"
            f" -deststoretype PKCS12 && openssl pkcs12 -in {path}.p12 -out {path}.pem;"
            f" then ssl.{store.kind}.type=PEM",
        )
    if kind not in ("", "JKS", "PEM", "PKCS12"):
        raise _wrong(store, "type", "must be PEM or PKCS12")
    if kind in ("PEM", "PKCS12"):
        return kind
    return "PEM" if PEM_START in data else "PKCS12"


def _keystore_of_pkcs12(store: StoreSettings, data: bytes) -> KeyPair:
    pkcs12, serialization = _cryptography(store)
    key, own, others = _opened(pkcs12.load_key_and_certificates, store, data)
    if key is None or own is None:
        raise _wrong(store, "location", "there is no private key with a certificate in it")
    encoding = serialization.Encoding.PEM
    text = key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = [certificate.public_bytes(encoding).decode() for certificate in (own, *others)]
    return KeyPair(text.decode(), "".join(chain), None)


def _truststore_of_pkcs12(store: StoreSettings, data: bytes) -> str:
    pkcs12, serialization = _cryptography(store)
    _, own, others = _opened(pkcs12.load_key_and_certificates, store, data)
    found = [certificate for certificate in (own, *others) if certificate is not None]
    if not found:
        raise _wrong(store, "location", "there is no certificate in it")
    encoding = serialization.Encoding.PEM
    return "".join(certificate.public_bytes(encoding).decode() for certificate in found)


def _opened(load, store: StoreSettings, data: bytes):  # type: ignore[no-untyped-def]
    try:
        return load(data, store.password.encode() if store.password else None)
    except ValueError as error:
        raise _wrong(
            store, "location", f"not a PKCS12 file, or another password: {error}"
        ) from None


def _cryptography(store: StoreSettings):  # type: ignore[no-untyped-def]
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        path = store.location
        raise _wrong(
            store,
            "type",
            f"PKCS12 needs cryptography: {install_command('security')}; or convert it to PEM:"
            f" openssl pkcs12 -in {path} -out {path}.pem",
        ) from None
    return pkcs12, serialization


def _wrong(store: StoreSettings, name: str, reason: str) -> ConfigError:
    """An error that never shows passwords and keys."""
    shown = store.location if name == "location" else store.type if name == "type" else None
    full = f"ssl.{store.kind}.{name}"
    return ConfigError([(full, shown, reason)])

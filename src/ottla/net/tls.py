"""TLS contexts of a listener, as a server and as a client of other brokers."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ottla.config import ConfigError, TlsSettings
from ottla.net.certificates import Certificate, certificates_of, read_certificate
from ottla.net.keystores import KeyPair, read_keystore, read_truststore

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
KTLS_OPTION: Final = 8  # SSL_OP_ENABLE_KTLS of OpenSSL 3; Python has a name for it from 3.12 on
UPPER_LAYERS: Final = Path("/proc/sys/net/ipv4/tcp_available_ulp")
HANDSHAKE_ROUNDS_MAX: Final = 16  # for a handshake in memory, which takes three


class TlsIdentity:
    """A listener's key, certificates and trusted authorities, read at one moment."""

    def __init__(self, settings: TlsSettings) -> None:
        """ConfigError says what is wrong with the settings."""
        self.settings = settings
        self.key_pair = read_keystore(settings.keystore)
        self.trusted = read_truststore(settings.truststore)
        self.certificate: Certificate | None = None
        if self.key_pair is not None:
            self.certificate = read_certificate(certificates_of(self.key_pair.chain)[0])

    def server_context(self) -> ssl.SSLContext:
        settings = self.settings
        if self.key_pair is None:
            reason = f"listener {settings.listener} needs a key and a certificate"
            raise ConfigError([("ssl.keystore.location", None, reason)])
        context = self._context(ssl.PROTOCOL_TLS_SERVER)
        # Each renegotiation costs the broker a signature and the client nothing.
        context.options |= ssl.OP_NO_RENEGOTIATION
        if settings.ktls and ktls_available():
            context.options |= KTLS_OPTION
        context.verify_mode = CLIENT_AUTH[settings.client_auth]
        if settings.client_auth != "none":
            self._trust(context, ssl.Purpose.CLIENT_AUTH)
        return context

    def client_context(self, *, check_hostname: bool | None = None) -> ssl.SSLContext:
        context = self._context(ssl.PROTOCOL_TLS_CLIENT)
        wanted = self.settings.check_hostname if check_hostname is None else check_hostname
        context.check_hostname = wanted
        self._trust(context, ssl.Purpose.SERVER_AUTH)
        return context

    def _context(self, side: ssl._SSLMethod) -> ssl.SSLContext:
        settings = self.settings
        context = ssl.SSLContext(side)
        versions = sorted(VERSIONS[protocol] for protocol in settings.protocols)
        context.minimum_version, context.maximum_version = versions[0], versions[-1]
        _choose_ciphers(context, settings.ciphers)
        if self.key_pair is not None:
            _load(context, self.key_pair)
        return context

    def _trust(self, context: ssl.SSLContext, purpose: ssl.Purpose) -> None:
        if self.trusted is None:
            context.load_default_certs(purpose)
        else:
            context.load_verify_locations(cadata=self.trusted)


def _load(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Without a password OpenSSL would ask for one on the terminal: an error instead."""
    try:
        with _path_of(pair.chain) as chain, _path_of(pair.key) as key:
            context.load_cert_chain(chain, key, password=pair.password or "")
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = f"the private key or its password is wrong, or is not the certificate's: {error}"
        raise ConfigError([("ssl.keystore.location", None, reason)]) from None


@contextmanager
def _path_of(text: str) -> Iterator[str]:
    """Python loads keys from paths only: here from a file in memory that nobody else can open."""
    if not hasattr(os, "memfd_create"):
        from tempfile import NamedTemporaryFile

        with NamedTemporaryFile("w") as file:  # made readable for its owner only
            file.write(text)
            file.flush()
            yield file.name
        return
    fd = os.memfd_create("ottla-tls", os.MFD_CLOEXEC)
    try:
        os.write(fd, text.encode())
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def _choose_ciphers(context: ssl.SSLContext, suites: tuple[str, ...]) -> None:
    """Takes Java's names or OpenSSL's. OpenSSL keeps those of TLS 1.3 in a separate list."""
    if not suites:
        return
    newer = [suite for suite in suites if re.match(r"TLS_(AES|CHACHA20)", suite)]
    older = [openssl_name(suite) for suite in suites if suite not in newer]
    try:
        if older:
            context.set_ciphers(":".join(older))
    except ssl.SSLError:
        reason = f"OpenSSL knows none of {', '.join(older)}"
        raise ConfigError([("ssl.cipher.suites", ",".join(suites), reason)]) from None
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if not newer:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    elif hasattr(context, "set_ciphersuites"):  # Python 3.15
        context.set_ciphersuites(":".join(newer))


def openssl_name(suite: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 becomes ECDHE-RSA-AES128-GCM-SHA256."""
    if not suite.startswith("TLS_"):
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).replace("_CBC", "")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    exchange = "" if exchange == "RSA" else f"{exchange}_"
    return (exchange + cipher).replace("_", "-")


def ktls_available() -> bool:
    """True if the kernel can encrypt what sockets send, which needs its module `tls`."""
    try:
        return "tls" in UPPER_LAYERS.read_text().split() and ssl.OPENSSL_VERSION_INFO >= (3,)
    except OSError:
        return False


def try_handshake(server: ssl.SSLContext, client: ssl.SSLContext, hostname: str) -> None:
    """Shake hands in memory; ssl.SSLError says why the two contexts do not fit together."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=hostname),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(HANDSHAKE_ROUNDS_MAX):
        done = [_is_done(end) for end in ends]
        if all(done):
            return
    raise ssl.SSLError("the handshake does not end")


def _is_done(end: ssl.SSLObject) -> bool:
    """Go as far as this end can; False while it needs more from the other end."""
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True

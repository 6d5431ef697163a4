"""Certificates for trials and tests: a CA, and what it signs for brokers and clients.

The `openssl` command makes them: it exists wherever Python has an ssl module, and a library that
could do it would be megabytes of dependency for one afternoon.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

DAYS: Final = 365
COMMAND_S_MAX: Final = 60
CURVE: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
LOCAL_NAMES: Final = ("DNS:localhost", "IP:127.0.0.1", "IP:::1")


@dataclass(slots=True, frozen=True)
class CertificateFiles:
    """PEM files: the key, the certificate with its chain, and both in one, as Kafka wants it."""

    key: Path
    certificate: Path
    keystore: Path


class CertificateAuthority:
    """A CA in a directory: `ca.pem` is what peers trust. It is created if it does not exist."""

    def __init__(self, directory: Path, *, name: str = "Ottla test authority") -> None:
        self.directory = directory
        self.certificate = directory / "ca.pem"
        self._key = directory / "ca.key"
        directory.mkdir(parents=True, exist_ok=True)
        if not self.certificate.exists():
            self._make(name)

    def issue(
        self,
        name: str,
        *,
        subject: str | None = None,
        alternative_names: Iterable[str] = LOCAL_NAMES,
        days: int = DAYS,
        rsa_bits: int = 0,
        password: str | None = None,
    ) -> CertificateFiles:
        """Write a key and a certificate as <name>.key, .crt and .pem, replacing those that exist.

        The subject is /CN=<name>, or `subject` in OpenSSL's form, with slashes. A `password`
        encrypts the key.
        """
        files = CertificateFiles(
            *(self.directory / f"{name}.{end}" for end in ("key", "crt", "pem"))
        )
        kind = ("-newkey", f"rsa:{rsa_bits}") if rsa_bits else CURVE
        guard = ("-nodes",) if password is None else ("-passout", f"pass:{password}")
        with TemporaryDirectory() as folder:
            request, extensions = Path(folder) / "request", Path(folder) / "extensions"
            key, certificate = Path(folder) / "key", Path(folder) / "certificate"
            extensions.write_text(
                "basicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth,clientAuth\n"
                f"subjectAltName={','.join(alternative_names)}\n"
            )
            _openssl(
                *("req", "-new", *kind, *guard, "-subj", subject or f"/CN={name}"),
                *("-keyout", str(key), "-out", str(request)),
            )
            _openssl(
                *("x509", "-req", "-in", str(request), "-days", str(days), "-CAcreateserial"),
                *("-CA", str(self.certificate), "-CAkey", str(self._key)),
                *("-extfile", str(extensions), "-out", str(certificate)),
            )
            texts = key.read_text(), certificate.read_text() + self.certificate.read_text()
        _replace(files.key, texts[0])
        _replace(files.certificate, texts[1])
        _replace(files.keystore, "".join(texts))
        return files

    def _make(self, name: str) -> None:
        _openssl(
            *("req", "-x509", "-new", *CURVE, "-nodes", "-days", str(DAYS), "-subj", f"/CN={name}"),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
            *("-keyout", str(self._key), "-out", str(self.certificate)),
        )
        self._key.chmod(0o600)


def _replace(path: Path, text: str) -> None:
    """Atomic, so that nobody reads half a file."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.touch(mode=0o600)
    fresh.write_text(text)
    fresh.replace(path)


def _openssl(*arguments: str) -> None:
    if shutil.which("openssl") is None:
        raise RuntimeError("the command openssl is not installed: apt install openssl")
    done = subprocess.run(
        ("openssl", *arguments), capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False
    )
    if done.returncode:
        raise RuntimeError(f"openssl {arguments[0]}: {done.stderr.strip()}")

"""An OpenID Connect provider for tests that ask one for tokens.

It is the one of librdkafka's own harness (trivup), whose sources are beside librdkafka's tests.
"""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.brokers import HOST, free_port
from benchmarks.processes import spawn

from suites.ports import wait_for_port

KEYS_S_MAX = 60
PASSWORD = "assertion-secret"
# The pair with which a client signs its assertions (RFC 7523).
MAKE_KEYS = """
import sys, pathlib
from jwcrypto import jwk
folder, password = pathlib.Path(sys.argv[1]), sys.argv[2].encode()
key = jwk.JWK.generate(kty="RSA", size=2048, alg="RS256", use="sig", kid="client")
(folder / "assertion.jwk").write_text(key.export_public())
for name, lock in (("assertion.key", None), ("assertion.locked.key", password)):
    (folder / name).write_bytes(key.export_to_pem(private_key=True, password=lock))
"""


@dataclass(frozen=True, slots=True)
class TokenProvider:
    address: str
    folder: Path

    @property
    def keys(self) -> str:
        return f"{self.address}/keys"

    def environment(self) -> dict[str, str]:
        """By the names in librdkafka's own harness."""
        return {
            "VALID_OIDC_URL": f"{self.address}/retrieve",
            "INVALID_OIDC_URL": f"{self.address}/retrieve/badformat",
            "EXPIRED_TOKEN_OIDC_URL": f"{self.address}/retrieve/expire",
            "OAUTHBEARER_CLIENT_PRIVATE_KEY": str(self.folder / "assertion.key"),
            "OAUTHBEARER_CLIENT_PRIVATE_KEY_ENCRYPTED": str(self.folder / "assertion.locked.key"),
            "OAUTHBEARER_CLIENT_PRIVATE_KEY_PASSWORD": PASSWORD,
        }


@contextmanager
def token_provider(home: Path, folder: Path) -> Iterator[TokenProvider]:
    """`home` has the environment that the provider needs (sources.Librdkafka)."""
    python = str(home / "venv/bin/python")
    folder.mkdir(parents=True)
    make = [python, "-c", MAKE_KEYS, str(folder), PASSWORD]
    subprocess.run(make, check=True, timeout=KEYS_S_MAX)
    port = free_port()
    command = [
        python, "-m", "trivup.apps.OauthbearerOIDCApp", "--port", str(port),
        "--client-public-key", str(folder / "assertion.jwk"),
    ]  # fmt: skip
    server = spawn(command, log=folder / "provider.log")
    try:
        wait_for_port(port)
        provider = TokenProvider(f"http://{HOST}:{port}", folder)
        urllib.request.urlopen(
            provider.keys, timeout=KEYS_S_MAX
        ).close()  # made when first asked for
        yield provider
    finally:
        server.stop()

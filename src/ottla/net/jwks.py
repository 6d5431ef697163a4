"""The keys of an identity provider (JWKS), from its URL or from a file, kept up to date.

A helper thread fetches them. If the provider can't be reached, the last keys stay in use; before
the first fetch no token is accepted. A token that names an unknown key triggers a fetch, but at
most one in LOOK_AGAIN_MS, because anybody can send such tokens.
"""

from __future__ import annotations

import asyncio
import json
import logging
import urllib.request
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from ottla.auth.jwt_validator import KEY_TYPES, VerificationKey
from ottla.config import is_loopback

DOCUMENT_BYTES_MAX: Final = 1 << 20
FETCH_S_MAX: Final = 10.0
LOOK_AGAIN_MS: Final = 10_000
KEYS_MAX: Final = 1000

log = logging.getLogger("ottla.net")


class JwksKeys:
    """A VerificationKeys (see auth/jwt_validator.py)."""

    def __init__(self, url: str, *, refresh_ms: int, retry_ms: int, retry_ms_max: int) -> None:
        """ValueError for a URL that keys must not come from."""
        check_url(url)
        self._url = url
        self._refresh_ms = refresh_ms
        self._retry_ms, self._retry_ms_max = retry_ms, retry_ms_max
        self._wait_ms = retry_ms
        self._keys: dict[str | None, VerificationKey] = {}
        self._due_ms = 0
        self._looked_ms = -LOOK_AGAIN_MS
        self._fetching: asyncio.Task[None] | None = None

    def find(self, key_id: str | None, now_ms: int) -> VerificationKey | None:
        if key_id is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        found = self._keys.get(key_id)
        if found is None and now_ms >= self._looked_ms + LOOK_AGAIN_MS:
            self._begin(now_ms)
        return found

    def refresh(self, now_ms: int) -> None:
        """Fetch the keys if they are due."""
        if now_ms >= self._due_ms:
            self._begin(now_ms)

    @property
    def fetching(self) -> bool:
        return self._fetching is not None and not self._fetching.done()

    async def settled(self) -> None:
        """Wait for the fetch under way, if any."""
        if self._fetching is not None:
            await self._fetching

    def _begin(self, now_ms: int) -> None:
        if self._fetching is None or self._fetching.done():
            self._looked_ms = now_ms
            self._fetching = asyncio.get_running_loop().create_task(self._fetch(now_ms))

    async def _fetch(self, now_ms: int) -> None:
        try:
            self._keys = await asyncio.to_thread(_read, self._url)
        except (OSError, ValueError) as error:
            log.error("Failed to read keys from %s: %s", self._url, error)
            self._due_ms = now_ms + self._wait_ms
            self._wait_ms = min(2 * self._wait_ms, self._retry_ms_max)
            return
        if not self._keys:
            log.error("%s has no key that could verify a token", self._url)
        self._wait_ms = self._retry_ms
        self._due_ms = now_ms + self._refresh_ms


def check_url(url: str) -> None:
    """Keys must come over TLS or from a local file: changed on the way, they let anybody in."""
    parts = urlsplit(url)
    if parts.scheme == "file" and not parts.netloc and parts.path:
        return
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and is_loopback(parts.hostname or ""):
        return
    raise ValueError("must be https://host/..., file:///path, or http:// on this machine")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could lead to a URL that nobody configured (CVE-2025-27817)."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _read(url: str) -> dict[str | None, VerificationKey]:
    """On a helper thread. OSError or ValueError if there is no key set."""
    opener = urllib.request.build_opener(_NoRedirects)
    with opener.open(url, timeout=FETCH_S_MAX) as response:
        text = response.read(DOCUMENT_BYTES_MAX + 1)
    if len(text) > DOCUMENT_BYTES_MAX:
        raise ValueError(f"more than {DOCUMENT_BYTES_MAX} bytes")
    return parse_jwks(json.loads(text))


def parse_jwks(document: Any) -> dict[str | None, VerificationKey]:
    """Keys by their ids, without secrets (oct) and keys that are not for signatures."""
    import jwt

    found: dict[str | None, VerificationKey] = {}
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise ValueError("not a JSON web key set")
    load: Callable[[dict[str, Any]], Any] = jwt.PyJWK.from_dict
    for entry in listed:
        if not isinstance(entry, dict) or entry.get("kty") not in KEY_TYPES.values():
            continue
        if entry.get("use", "sig") != "sig":
            continue
        try:
            key = load(entry).key
        except jwt.PyJWTError as error:
            log.warning("Ignoring a key of the provider: %s", error)
            continue
        algorithm = entry.get("alg")
        found[entry.get("kid")] = VerificationKey(entry["kty"], algorithm, key)
    return found

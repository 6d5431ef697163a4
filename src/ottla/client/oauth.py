"""OAUTHBEARER on the client's side: where a token comes from, and when it is refreshed.

    sasl.oauthbearer.token.endpoint.url   https://...: client credentials (RFC 6749, 4.4)
                                          file:///...: a file that somebody keeps up to date
    unsecuredLoginStringClaim_sub="x"     in sasl.jaas.config: an unsigned token, for tests

Connections with equal settings share a token source: it fetches a token once, and again in the
background before the token expires, so that no produce or fetch waits for an endpoint.
"""

from __future__ import annotations

import base64
import functools
import http.client
import json
import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode, urlsplit

from ottla.auth.sasl_client import BearerToken
from ottla.client.delivery import Setting
from ottla.client.tls import client_context, text, wrong
from ottla.errors import ErrorCode, KafkaError

REFRESH_FACTOR: Final = 0.8  # sasl.login.refresh.window.factor
LIFETIME_S: Final = 300.0  # of a token without an expiry
RETRIES_MAX: Final = 3
RETRY_S: Final = 0.1
TIMEOUT_S: Final = 10.0
TOKEN_BYTES_MAX: Final = 1 << 20
SOURCES_MAX: Final = 64
ALLOWED_URLS: Final = "OTTLA_SASL_OAUTHBEARER_ALLOWED_URLS"
"""Kafka's org.apache.kafka.sasl.oauthbearer.allowed.urls: exactly these URLs, comma-separated."""
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class OAuthTokenSettings:
    """Where a token comes from; clients with equal settings share one source."""

    url: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    urlencode: bool = False
    timeout_s: float = TIMEOUT_S
    tls: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    subject: str = ""
    lifetime_s: float = 3600.0
    claims: tuple[tuple[str, str], ...] = ()


def token_settings(
    settings: Mapping[str, Setting], options: Mapping[str, str]
) -> OAuthTokenSettings:
    """From a client's settings and the options of its login module."""
    new = "sasl.oauthbearer.client.credentials.client"
    url = text(settings, "sasl.oauthbearer.token.endpoint.url")
    if url:
        check_url(url)
    subject = options.get("unsecuredLoginStringClaim_sub", "")
    if not url and not subject:
        raise wrong(
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url (https:// or file://), or an"
            ' unsecuredLoginStringClaim_sub="name" in sasl.jaas.config for tests'
        )
    plain = "sasl.oauthbearer.client"
    token_settings = OAuthTokenSettings(
        url,
        text(settings, f"{new}.id") or options.get("clientId", "") or text(settings, f"{plain}.id"),
        text(settings, f"{new}.secret")
        or options.get("clientSecret", "")
        or text(settings, f"{plain}.secret"),
        text(settings, "sasl.oauthbearer.scope") or options.get("scope", ""),
        urlencode=text(settings, "sasl.oauthbearer.header.urlencode").lower() == "true",
        timeout_s=int(text(settings, "sasl.login.read.timeout.ms") or TIMEOUT_S * 1000) / 1000,
        tls=tuple(sorted((name, value) for name, value in options.items() if "ssl." in name)),
        subject=subject,
        lifetime_s=float(options.get("unsecuredLoginLifetimeSeconds", "3600")),
        claims=tuple(
            (name.removeprefix("unsecuredLoginStringClaim_"), value)
            for name, value in options.items()
            if name.startswith("unsecuredLoginStringClaim_")
        ),
    )
    if url.startswith("http") and not (token_settings.client_id and token_settings.client_secret):
        raise wrong(f"a token from {url} needs {new}.id and {new}.secret")
    return token_settings


def check_url(url: str) -> None:
    """CVE-2025-27817: a URL in a configuration can read files and reach hosts as this process."""
    allowed = os.environ.get(ALLOWED_URLS)
    if allowed is not None:
        if url not in (part.strip() for part in allowed.split(",")):
            raise wrong(f"sasl.oauthbearer.token.endpoint.url {url} is not in {ALLOWED_URLS}")
        return
    parts = urlsplit(url)
    if parts.scheme in ("https", "file") or (parts.scheme == "http" and parts.hostname in LOOPBACK):
        return
    raise wrong(
        f"sasl.oauthbearer.token.endpoint.url {url}: a secret goes there, so it must be https;"
        f" {ALLOWED_URLS} can allow it"
    )


class TokenSource:
    """Returns the current token. Thread-safe."""

    def __init__(
        self, fetch: Callable[[], tuple[str, float | None]], clock: Callable[[], float] = time.time
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._token: BearerToken | None = None
        self._refreshing = False

    def token(self) -> BearerToken:
        token = self._token
        if token is not None:
            now = self._clock()
            refresh_at = token.fetched_at + (token.expires_at - token.fetched_at) * REFRESH_FACTOR
            if now < refresh_at:
                return token
            if now < token.expires_at:
                self._refresh_soon()
                return token
        with self._lock:
            if self._token is token:  # no other thread has refreshed it meanwhile
                self._token = self._fetched()
            assert self._token is not None
            return self._token

    def _refresh_soon(self) -> None:
        with self._lock:
            if self._refreshing:
                return
            self._refreshing = True
        threading.Thread(target=self._refresh, name="ottla-token", daemon=True).start()

    def _refresh(self) -> None:
        try:
            self._token = self._fetched()
        except KafkaError:
            pass  # the old token is still good; a caller after its expiry gets the error
        finally:
            self._refreshing = False

    def _fetched(self) -> BearerToken:
        value, lifetime_s = self._fetch()
        now = self._clock()
        claims = claims_of(value)
        expiry = claims.get("exp")
        end = (
            float(expiry)
            if isinstance(expiry, (int, float))
            else now + (lifetime_s if lifetime_s is not None else LIFETIME_S)
        )
        return BearerToken(value, str(claims.get("sub", "")), end, now)


@functools.lru_cache(maxsize=SOURCES_MAX)
def source_of(settings: OAuthTokenSettings) -> TokenSource:
    if settings.url.startswith("file:"):
        return TokenSource(lambda: _from_file(unquote(urlsplit(settings.url).path)))
    if settings.url:
        return TokenSource(lambda: _from_endpoint(settings))
    return TokenSource(lambda: (_unsecured(settings), settings.lifetime_s))


def claims_of(token: str) -> dict[str, Any]:
    """The claims of a JWT, unverified: that is the broker's part."""
    parts = token.split(".")
    try:
        body = parts[1] + "=" * (-len(parts[1]) % 4)
        found = json.loads(base64.urlsafe_b64decode(body))
    except (IndexError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _from_file(path: str) -> tuple[str, None]:
    try:
        with Path(path).open("rb") as file:
            data = file.read(TOKEN_BYTES_MAX)
    except OSError as error:
        raise _failed(f"the token file {path} can't be read: {error.strerror}") from None
    value = data.decode(errors="replace").strip()
    if len(value.split(".")) != 3:  # never send it: it may be any file of this machine
        raise _failed(f"the token file {path} has no JWT")
    return value, None


def _from_endpoint(settings: OAuthTokenSettings) -> tuple[str, float | None]:
    failure: KafkaError | None = None
    for attempt in range(RETRIES_MAX):
        if attempt:
            time.sleep(RETRY_S * 2**attempt)
        try:
            status, body = _ask(settings)
        except (OSError, http.client.HTTPException) as error:
            failure = _failed(f"no token from {settings.url}: {error}")
            continue
        if status == 200:
            return _token_in(settings.url, body)
        failure = _failed(f"no token from {settings.url}: HTTP {status}{_oauth_error(body)}")
        if status < 500:
            break  # the endpoint has understood the request and refuses
    assert failure is not None
    raise failure


def _ask(settings: OAuthTokenSettings) -> tuple[int, bytes]:
    """One POST. A redirect is not followed: the secret is for this address alone."""
    at = urlsplit(settings.url)
    host, timeout_s = at.hostname or "", settings.timeout_s
    if at.scheme == "https":
        context = client_context(dict(settings.tls)) if settings.tls else _system_context()
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, at.port, timeout=timeout_s, context=context
        )
    else:
        connection = http.client.HTTPConnection(host, at.port, timeout=timeout_s)
    client, secret = settings.client_id, settings.client_secret
    if settings.urlencode:
        client, secret = quote(client, safe=""), quote(secret, safe="")
    form = {"grant_type": "client_credentials"}
    if settings.scope:
        form["scope"] = settings.scope
    headers = {
        "Accept": "application/json",
        "Authorization": "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode(),
        "Content-Type": "application/x-www-form-urlencoded",
    }
    path = (at.path or "/") + (f"?{at.query}" if at.query else "")
    try:
        connection.request("POST", path, urlencode(form), headers)
        answer = connection.getresponse()
        return answer.status, answer.read(TOKEN_BYTES_MAX)
    finally:
        connection.close()


def _system_context() -> ssl.SSLContext:
    return client_context({})


def _token_in(url: str, body: bytes) -> tuple[str, float | None]:
    try:
        found = json.loads(body)
        value, lifetime_s = found["access_token"], found.get("expires_in")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _failed(f"{url} answered without an access_token") from None
    return str(value).strip(), float(lifetime_s) if lifetime_s is not None else None


def _oauth_error(body: bytes) -> str:
    """RFC 6749's `error` code only; the rest of a body may repeat the request."""
    try:
        found = json.loads(body).get("error", "")
    except (ValueError, AttributeError):
        return ""
    return f" ({str(found)[:80]})" if found else ""


def _unsecured(settings: OAuthTokenSettings) -> str:
    """An unsigned token (`alg` none), as Kafka's OAuthBearerUnsecuredLoginCallbackHandler makes."""
    now = time.time()
    claims = {**dict(settings.claims), "iat": now, "exp": now + settings.lifetime_s}
    parts = ({"alg": "none"}, claims)
    return ".".join(_base64url(json.dumps(part).encode()) for part in parts) + "."


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _failed(why: str) -> KafkaError:
    return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, why)

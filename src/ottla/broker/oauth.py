"""OAUTHBEARER of a listener, made from its settings: what it takes for a token, and whose keys."""

from __future__ import annotations

import logging
from typing import Final

from ottla.auth.jwt_validator import JwtRules, SignedTokens, UnsecuredTokens
from ottla.auth.mechanisms import JAAS
from ottla.auth.oauthbearer import OAuthBearerMechanism
from ottla.auth.sasl_client import OAUTHBEARER, SaslLogin
from ottla.broker.jwks import JwksKeys
from ottla.config.definition import ConfigError
from ottla.config.listener_settings import ListenerSettings
from ottla.errors import KafkaError

PREFIX: Final = "sasl.oauthbearer."
URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
UNSECURED: Final = "ottla.sasl.oauthbearer.unsecured"

log = logging.getLogger("ottla.broker")


class OAuthProviders:
    """Keys of all providers that listeners name, each fetched once."""

    def __init__(self) -> None:
        self._keys: dict[str, JwksKeys] = {}

    def refresh(self, now_ms: int) -> None:
        for keys in self._keys.values():
            keys.refresh(now_ms)

    def mechanism(self, settings: ListenerSettings, max_reauth_ms: int) -> OAuthBearerMechanism:
        """ConfigError without a source of keys: no token could be verified (CVE-2026-110985)."""
        rules = _rules(settings)
        url = settings.get(URL)
        if settings.get(UNSECURED):
            if url is not None:
                raise ConfigError([(UNSECURED, "true", f"can't be set together with {URL}")])
            log.warning(
                "Listener %s accepts unsecured tokens: everybody can be anybody there",
                settings.listener,
            )
            unsecured = UnsecuredTokens(rules)
            return OAuthBearerMechanism(unsecured, max_reauth_ms=max_reauth_ms)
        if url is None:
            reason = "OAUTHBEARER needs the keys of a provider: https://... or file:///..."
            raise ConfigError([(URL, None, reason)])
        _warn(settings, rules)
        try:
            signed = SignedTokens(self._keys_of(settings, str(url)), rules)
        except ImportError:
            reason = "OAUTHBEARER needs PyJWT and cryptography: pip install 'ottla[oauth]'"
            raise ConfigError([("sasl.enabled.mechanisms", "OAUTHBEARER", reason)]) from None
        except ValueError as error:
            raise ConfigError([(URL, str(url), str(error))]) from None
        return OAuthBearerMechanism(signed, max_reauth_ms=max_reauth_ms)

    def _keys_of(self, settings: ListenerSettings, url: str) -> JwksKeys:
        if url not in self._keys:
            self._keys[url] = JwksKeys(
                url,
                refresh_ms=_number(settings, "jwks.endpoint.refresh.ms"),
                retry_ms=_number(settings, "jwks.endpoint.retry.backoff.ms"),
                retry_ms_max=_number(settings, "jwks.endpoint.retry.backoff.max.ms"),
            )
            self._keys[url].refresh(0)
        return self._keys[url]


OWN_TOKEN: Final = (
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.login.read.timeout.ms",
)


def bearer_login(settings: ListenerSettings) -> SaslLogin:
    """Who we are to other brokers, by OAUTHBEARER: a client's settings, from our own."""
    from ottla.client.security import login_of  # few brokers need it

    found = {name: settings.get(name) for name in OWN_TOKEN}
    found["sasl.jaas.config"] = settings.get(JAAS, OAUTHBEARER)
    given = {name: str(value) for name, value in found.items() if value is not None}
    asked = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": OAUTHBEARER}
    try:
        login = login_of({**given, **asked})
    except KafkaError as error:
        name = f"listener.name.{settings.listener.lower()}.oauthbearer.{JAAS}"
        raise ConfigError([(name, None, error.message)]) from None
    assert login is not None
    return login


def _rules(settings: ListenerSettings) -> JwtRules:
    audiences = settings.get(f"{PREFIX}expected.audience")
    issuer = settings.get(f"{PREFIX}expected.issuer")
    assert isinstance(audiences, tuple)
    return JwtRules(
        audiences=audiences,
        issuer=None if issuer is None else str(issuer),
        skew_ms=_number(settings, "clock.skew.seconds") * 1000,
        name_claim=str(settings.get(f"{PREFIX}sub.claim.name")),
        scope_claim=str(settings.get(f"{PREFIX}scope.claim.name")),
    )


def _warn(settings: ListenerSettings, rules: JwtRules) -> None:
    for name, there in (
        (f"{PREFIX}expected.audience", rules.audiences),
        (f"{PREFIX}expected.issuer", rules.issuer),
    ):
        if not there:
            log.warning(
                "Listener %s: %s is not set, so tokens that the provider made for others are"
                " accepted, too",
                settings.listener,
                name,
            )


def _number(settings: ListenerSettings, name: str) -> int:
    value = settings.get(PREFIX + name)
    assert isinstance(value, int)
    return value

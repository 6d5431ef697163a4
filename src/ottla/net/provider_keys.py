"""Validators of bearer tokens by sasl.oauthbearer.*, and the providers' keys that they use."""

from __future__ import annotations

import logging
from typing import Final, Protocol

from ottla.auth.bearer_token import TokenValidator
from ottla.auth.jwt_validator import JwtRules, SignedJwtValidator, UnsecuredJwtValidator
from ottla.config.definition import ConfigError, Value
from ottla.extras import install_command
from ottla.net.jwks import JwksKeys

PREFIX: Final = "sasl.oauthbearer."
URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
UNSECURED: Final = "ottla.sasl.oauthbearer.unsecured"

log = logging.getLogger("ottla.net")


class TokenSettings(Protocol):
    """sasl.oauthbearer.*, of a listener of the broker or of a REST server."""

    @property
    def listener(self) -> str: ...

    def get(self, name: str) -> Value: ...


class ProviderKeys:
    """The keys of all providers that listeners name; listeners with one provider share them."""

    def __init__(self) -> None:
        self._keys: dict[str, JwksKeys] = {}

    def refresh(self, now_ms: int) -> None:
        for keys in self._keys.values():
            keys.refresh(now_ms)

    async def settled(self) -> bool:
        """Wait for the fetches under way; False if there was none."""
        fetching = [keys for keys in self._keys.values() if keys.fetching]
        for keys in fetching:
            await keys.settled()
        return bool(fetching)

    def validator(self, settings: TokenSettings) -> TokenValidator:
        """ConfigError without a source of keys: tokens would go unverified (CVE-2026-110985)."""
        rules = _rules(settings)
        url = settings.get(URL)
        if settings.get(UNSECURED):
            if url is not None:
                raise ConfigError([(UNSECURED, "true", f"can't be set together with {URL}")])
            log.warning(
                "Listener %s accepts unsecured tokens: clients can claim to be any user there",
                settings.listener,
            )
            return UnsecuredJwtValidator(rules)
        if url is None:
            reason = "OAUTHBEARER needs the keys of a provider: https://... or file:///..."
            raise ConfigError([(URL, None, reason)])
        _warn(settings, rules)
        try:
            return SignedJwtValidator(self._keys_of(settings, str(url)), rules)
        except ImportError:
            reason = f"OAUTHBEARER needs PyJWT and cryptography: {install_command('oauth')}"
            raise ConfigError([("sasl.enabled.mechanisms", "OAUTHBEARER", reason)]) from None
        except ValueError as error:
            raise ConfigError([(URL, str(url), str(error))]) from None

    def _keys_of(self, settings: TokenSettings, url: str) -> JwksKeys:
        if url not in self._keys:
            self._keys[url] = JwksKeys(
                url,
                refresh_ms=_number(settings, "jwks.endpoint.refresh.ms"),
                retry_ms=_number(settings, "jwks.endpoint.retry.backoff.ms"),
                retry_ms_max=_number(settings, "jwks.endpoint.retry.backoff.max.ms"),
            )
        return self._keys[url]


def _rules(settings: TokenSettings) -> JwtRules:
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


def _warn(settings: TokenSettings, rules: JwtRules) -> None:
    for name, there in (
        (f"{PREFIX}expected.audience", rules.audiences),
        (f"{PREFIX}expected.issuer", rules.issuer),
    ):
        if not there:
            log.warning(
                "Listener %s: %s is not set, so it accepts tokens that were issued for other"
                " services",
                settings.listener,
                name,
            )


def _number(settings: TokenSettings, name: str) -> int:
    value = settings.get(PREFIX + name)
    assert isinstance(value, int)
    return value

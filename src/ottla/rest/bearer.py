"""Bearer tokens of a REST server: those that brokers accept for OAUTHBEARER, by the same settings.

    sasl.oauthbearer.jwks.endpoint.url      the provider's keys; required
    sasl.oauthbearer.expected.audience, .expected.issuer, .sub.claim.name, ...

A token must be signed (RS*, PS*, ES*, EdDSA) by one of these keys: no setting accepts an unsigned
token here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from ottla.client.tls import wrong
from ottla.config import BROKER_CONFIGS, ConfigError
from ottla.config.definition import Value
from ottla.net.provider_keys import UNSECURED, ProviderKeys
from ottla.rest.users import ADMIN, RestUser


class RestTokenSettings:
    def __init__(self, properties: Mapping[str, str], listener: str) -> None:
        self._properties = properties
        self.listener = listener

    def get(self, name: str) -> Value:
        definition = BROKER_CONFIGS[name]
        text = self._properties.get(name)
        if text is None:
            return definition.default
        try:
            return definition.parse(text)
        except ValueError as error:
            raise ConfigError([(name, text, str(error))]) from None


class BearerTokens:
    """Validates tokens and returns their users. Belongs to one server's event loop."""

    def __init__(
        self,
        properties: Mapping[str, str],
        realm: str,
        *,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        """KafkaError(INVALID_CONFIG) without a source of keys."""
        self._now_ms = now_ms
        self._providers = ProviderKeys()
        if properties.get(UNSECURED, "").strip().lower() == "true":
            raise wrong(f"{UNSECURED}: REST servers accept no unsigned tokens")
        try:
            self._validator = self._providers.validator(RestTokenSettings(properties, realm))
        except ConfigError as error:
            raise wrong(str(error)) from None

    async def check(self, token: str) -> RestUser | None:
        """A token with an unknown key is checked again once the keys have been fetched."""
        for _ in range(2):
            now_ms = self._now_ms()
            self._providers.refresh(now_ms)
            try:
                accepted = self._validator.validate(token, now_ms)
            except ValueError:
                if not await self._providers.settled():
                    return None
            else:
                return RestUser(accepted.name, "", frozenset({ADMIN}))
        return None

"""OAUTHBEARER of a listener, and this broker's own login with it."""

from __future__ import annotations

from typing import Final

from ottla.auth.bearer_token import OAuthBearerMechanism
from ottla.auth.mechanisms import JAAS
from ottla.auth.sasl_client import OAUTHBEARER, SaslLogin
from ottla.config.definition import ConfigError
from ottla.config.listener_settings import ListenerSettings
from ottla.errors import KafkaError
from ottla.net.provider_keys import ProviderKeys

INTER_BROKER_TOKEN: Final = (
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.login.read.timeout.ms",
)


def oauth_bearer_mechanism(
    providers: ProviderKeys, settings: ListenerSettings, max_reauth_ms: int
) -> OAuthBearerMechanism:
    """ConfigError without a source of keys; they are fetched from now on."""
    validator = providers.validator(settings)
    providers.refresh(0)
    return OAuthBearerMechanism(validator, max_reauth_ms=max_reauth_ms)


def oauth_bearer_login(settings: ListenerSettings) -> SaslLogin:
    """This broker's login at other brokers, by OAUTHBEARER: client settings from its own."""
    from ottla.client.security import login_of  # few brokers need it

    found = {name: settings.get(name) for name in INTER_BROKER_TOKEN}
    found["sasl.jaas.config"] = settings.get(JAAS, OAUTHBEARER)
    configured = {name: str(value) for name, value in found.items() if value is not None}
    required = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": OAUTHBEARER}
    try:
        login = login_of({**configured, **required})
    except KafkaError as error:
        name = f"listener.name.{settings.listener.lower()}.oauthbearer.{JAAS}"
        raise ConfigError([(name, None, error.message)]) from None
    assert login is not None
    return login

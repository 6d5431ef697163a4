"""The SASL mechanisms of a listener, made from its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from ottla.auth.jaas import JaasEntry, parse_jaas
from ottla.auth.plain import PlainMechanism
from ottla.auth.sasl import SaslMechanism
from ottla.auth.sasl_client import SASL_CLIENT_MECHANISMS
from ottla.auth.scram import HASHES
from ottla.auth.scram_server import ScramMechanism, ScramUsers
from ottla.config.definition import ConfigError
from ottla.config.listener_settings import ListenerSettings

JAAS: Final = "sasl.jaas.config"

MechanismBuilder = Callable[[ListenerSettings, int], SaslMechanism]
"""From a listener's settings and its `connections.max.reauth.ms`."""


def build_mechanisms(
    settings: ListenerSettings,
    users: ScramUsers,
    *,
    secret: bytes,
    builders: Mapping[str, MechanismBuilder] = MappingProxyType({}),
) -> Mapping[str, SaslMechanism]:
    """By name, in the order of `sasl.enabled.mechanisms`; ConfigError if one can't be served.

    `builders` make the mechanisms that need more than settings: a provider's keys, a library.
    """
    enabled = settings.get("sasl.enabled.mechanisms")
    assert isinstance(enabled, tuple)
    mechanisms: dict[str, SaslMechanism] = {}
    for name in enabled:
        max_reauth_ms = settings.get("connections.max.reauth.ms", name)
        assert isinstance(max_reauth_ms, int)
        if name == PlainMechanism.name:
            options = jaas_entry(settings, name).options
            mechanisms[name] = PlainMechanism.of_options(options, max_reauth_ms=max_reauth_ms)
        elif name in HASHES:
            mechanisms[name] = ScramMechanism(
                name, users, secret=secret, max_reauth_ms=max_reauth_ms
            )
        elif name in builders:
            mechanisms[name] = builders[name](settings, max_reauth_ms)
        else:
            raise _not_served(settings, name)
    return mechanisms


def jaas_entry(settings: ListenerSettings, mechanism: str) -> JaasEntry:
    """The mechanism's login module on this listener: PLAIN's users, or the broker's own login."""
    text = settings.get(JAAS, mechanism)
    full = f"listener.name.{settings.listener.lower()}.{mechanism.lower()}.{JAAS}"
    if text is None:
        raise ConfigError([(full, None, f"SASL {mechanism} needs a login module")])
    try:
        entry = parse_jaas(str(text))
    except ValueError as error:
        raise ConfigError([(full, None, str(error))]) from error
    if entry.module != mechanism.split("-")[0]:
        reason = f"the login module is for {entry.module}, not for {mechanism}"
        raise ConfigError([(full, None, reason)])
    return entry


def _not_served(settings: ListenerSettings, name: str) -> ConfigError:
    reason = f"{name} is not supported; supported are {', '.join(SASL_CLIENT_MECHANISMS)}"
    property_name = f"listener.name.{settings.listener.lower()}.sasl.enabled.mechanisms"
    return ConfigError([(property_name, name, reason)])

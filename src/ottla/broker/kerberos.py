"""GSSAPI of a listener: the service's key, and this broker's own ticket."""

from __future__ import annotations

from ottla.auth.gssapi import GssapiMechanism, GssFailure
from ottla.auth.kerberos_login import KerberosLogin, kerberos_login
from ottla.auth.kerberos_short_namer import KerberosShortNamer
from ottla.auth.mechanisms import JAAS, jaas_entry
from ottla.auth.sasl_client import GSSAPI, SaslLogin
from ottla.config.definition import ConfigError
from ottla.config.listener_settings import ListenerSettings
from ottla.net.gss_library import GssLibrary, gss_library
from ottla.net.kerberos_tickets import KerberosTickets

RULES = "sasl.kerberos.principal.to.local.rules"


def gssapi_mechanism(settings: ListenerSettings, max_reauth_ms: int) -> GssapiMechanism:
    """ConfigError without the library, without a keytab for our principal, or for invalid rules.

    Accepting a context needs neither network nor disk, so it is done on the loop like any other
    request: one takes about 0.1 ms.
    """
    library, login = _library(), _module(settings)
    try:
        if not login.keytab:
            raise ValueError("a broker needs useKeyTab=true, keyTab and principal")
        service = library.acceptor(login.principal, login.keytab)
        realm = library.full_name(login.principal).rpartition("@")[2]
    except (GssFailure, ValueError) as error:
        raise _wrong(settings, str(error)) from None
    rules = settings.get(RULES)
    assert isinstance(rules, tuple)
    try:
        names = KerberosShortNamer(rules, _own_realm(library, realm))
    except ValueError as error:
        raise ConfigError([(RULES, ",".join(rules), str(error))]) from None
    return GssapiMechanism(service.accept, names, max_reauth_ms=max_reauth_ms)


def kerberos_sasl_login(settings: ListenerSettings) -> SaslLogin:
    """This broker's login at other brokers, by GSSAPI."""
    _library()
    login = _module(settings)
    return SaslLogin(GSSAPI, login.principal, tickets=KerberosTickets(login))


def _own_realm(library: GssLibrary, of_service: str) -> str:
    """default_realm of krb5.conf, as DEFAULT has it in Kafka; without one, the service's."""
    try:
        return library.full_name("anybody").rpartition("@")[2]
    except GssFailure:
        return of_service


def _module(settings: ListenerSettings) -> KerberosLogin:
    options = jaas_entry(settings, GSSAPI).options
    service = settings.get("sasl.kerberos.service.name")
    try:
        return kerberos_login(options, "" if service is None else str(service))
    except ValueError as error:
        raise _wrong(settings, str(error)) from None


def _library() -> GssLibrary:
    try:
        return gss_library()
    except ImportError as error:
        raise ConfigError([("sasl.enabled.mechanisms", GSSAPI, str(error))]) from None


def _wrong(settings: ListenerSettings, reason: str) -> ConfigError:
    name = f"listener.name.{settings.listener.lower()}.{GSSAPI.lower()}.{JAAS}"
    return ConfigError([(name, None, reason)])

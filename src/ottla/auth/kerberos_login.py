"""Krb5LoginModule in `sasl.jaas.config`: the principal, and where its key or ticket is.

com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true
    keyTab="/etc/kafka.keytab" principal="kafka/host@REALM";
com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

FLAGS: Final = frozenset(
    {
        *("useKeyTab", "storeKey", "useTicketCache", "doNotPrompt", "renewTGT"),
        *("refreshKrb5Config", "isInitiator", "debug"),
    }
)
TEXTS: Final = frozenset({"keyTab", "principal", "ticketCache", "serviceName"})


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """`keytab`, or without one a ticket cache (empty: the default one)."""

    service: str
    principal: str = ""
    keytab: str = ""
    cache: str = ""


def kerberos_login(options: Mapping[str, str], service: str) -> KerberosLogin:
    """`service` is sasl.kerberos.service.name. ValueError says what is wrong."""
    for name, value in options.items():
        if name not in FLAGS and name not in TEXTS:
            raise ValueError(f"option {name} of Krb5LoginModule is not supported")
        if name in FLAGS and value.lower() not in ("true", "false"):
            raise ValueError(f"option {name} of Krb5LoginModule must be true or false")
    service = _service(options.get("serviceName", ""), service)
    principal = options.get("principal", "")
    if _is(options, "useKeyTab"):
        keytab = options.get("keyTab", "").removeprefix("FILE:")
        if not keytab or not principal:
            raise ValueError("useKeyTab=true needs keyTab and principal")
        return KerberosLogin(service, principal, keytab)
    if not _is(options, "useTicketCache"):
        raise ValueError("Krb5LoginModule needs useKeyTab=true or useTicketCache=true")
    return KerberosLogin(service, principal, cache=options.get("ticketCache", ""))


def _is(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"


def _service(in_module: str, in_config: str) -> str:
    if in_module and in_config and in_module != in_config:
        raise ValueError(
            f"Conflicting serviceName values found in JAAS and Kafka configs: {in_module} in JAAS,"
            f" {in_config} in sasl.kerberos.service.name"
        )
    service = in_module or in_config
    if not service:
        raise ValueError("No serviceName defined in either JAAS or Kafka config")
    if "@" in service or "/" in service:
        raise ValueError(f"sasl.kerberos.service.name {service} is not the name of a service")
    return service

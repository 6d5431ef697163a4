"""Krb5LoginModule in sasl.jaas.config, read strictly."""

from __future__ import annotations

import pytest

from ottla.auth.jaas import parse_jaas
from ottla.auth.kerberos_login import KerberosLogin, kerberos_login

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"


def login(options: str, service: str = "kafka") -> KerberosLogin:
    entry = parse_jaas(f"{MODULE} {options};")
    assert entry.module == "GSSAPI"
    return kerberos_login(entry.options, service)


def test_a_keytab_and_a_cache() -> None:
    keytab = 'useKeyTab=true storeKey=true keyTab="/etc/k.keytab" principal="kafka/h@R"'
    assert login(keytab) == KerberosLogin("kafka", "kafka/h@R", "/etc/k.keytab")
    assert login(f"{keytab} useTicketCache=false isInitiator=true") == login(keytab)
    assert login("useTicketCache=true") == KerberosLogin("kafka")
    named = 'useTicketCache=true ticketCache="/tmp/cc" principal="a@R" serviceName="broker"'
    assert login(named, "") == KerberosLogin("broker", "a@R", cache="/tmp/cc")


@pytest.mark.parametrize(
    ("options", "service", "said"),
    [
        ("useKeyTab=true", "kafka", "needs keyTab and principal"),
        ('useKeyTab=true keyTab="/x"', "kafka", "needs keyTab and principal"),
        ('useKeyTab=false keyTab="/x" principal="a"', "kafka", "useKeyTab=true or useTicketCache"),
        ("useTicketCache=yes", "kafka", "true or false"),
        ("useTicketCache=true tryFirstPass=true", "kafka", "tryFirstPass of Krb5LoginModule"),
        ("useTicketCache=true", "", "No serviceName defined"),
        ('useTicketCache=true serviceName="a"', "b", "Conflicting serviceName"),
        ("useTicketCache=true", "kafka/host", "is not the name of a service"),
    ],
)
def test_errors_name_what_is_wrong(options: str, service: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        login(options, service)

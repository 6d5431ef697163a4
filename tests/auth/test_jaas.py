"""JAAS text, and the mechanisms that a listener's settings make."""

from __future__ import annotations

import pytest

from ottla.auth.jaas import parse_jaas
from ottla.auth.mechanisms import build_mechanisms
from ottla.auth.sasl import SaslMechanism, SaslServer
from ottla.auth.scram import ScramCredential
from ottla.auth.scram_server import TokenCredential
from ottla.config import ConfigError, ServerConfig
from ottla.config.listener_settings import ListenerSettings

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class NoUsers:
    def scram(self, mechanism: str, name: str) -> ScramCredential | None:
        return None

    def token(self, mechanism: str, token_id: str) -> TokenCredential | None:
        return None


def mechanisms(**properties: str) -> dict[str, SaslMechanism]:
    named = {name.replace("__", "-").replace("_", "."): text for name, text in properties.items()}
    settings = ListenerSettings(ServerConfig(named), "PLAINTEXT")
    return dict(build_mechanisms(settings, NoUsers(), secret=b"s"))


def test_options_are_words_or_quoted() -> None:
    entry = parse_jaas(
        f'{PLAIN} required // the broker\n username="b" password=b-secret /* users */\n'
        '  user_alice="a \\"quoted\\" \\\\ \\101;";'
    )
    assert entry.module == "PLAIN"
    assert entry.options == {
        "username": "b",
        "password": "b-secret",
        "user_alice": 'a "quoted" \\ A;',
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"{PLAIN} required username=a",
        f"{PLAIN} username=a;",
        f"{PLAIN} required username;",
        f"{PLAIN} required username=;",
        f"{PLAIN} required a=b a=c;",
        f"{PLAIN} required; {SCRAM} required;",
        f'{PLAIN} required a="b;',
        f"{PLAIN} required a=b; }}",
    ],
)
def test_malformed_jaas_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_jaas(text)


@pytest.mark.parametrize(
    "module",
    [
        "com.sun.security.auth.module.JndiLoginModule",
        "com.sun.security.auth.module.LdapLoginModule",
        "PlainLoginModule",
    ],
)
def test_cve_2023_25194_cve_2025_27818_cve_2025_27819_only_known_modules(module: str) -> None:
    with pytest.raises(ValueError, match="unknown login module"):
        parse_jaas(f'{module} required user.provider.url="ldap://x/";')


def test_an_error_does_not_repeat_a_password() -> None:
    with pytest.raises(ConfigError) as caught:
        mechanisms(
            sasl_enabled_mechanisms="PLAIN",
            listener_name_plaintext_plain_sasl_jaas_config=f'{PLAIN} required user_a="hush"',
        )
    assert "hush" not in str(caught.value)


def test_the_setting_of_a_mechanism_takes_precedence() -> None:
    found = mechanisms(
        sasl_enabled_mechanisms="PLAIN",
        connections_max_reauth_ms="1",
        listener_name_plaintext_connections_max_reauth_ms="2",
        listener_name_plaintext_plain_connections_max_reauth_ms="3",
        listener_name_plaintext_sasl_jaas_config=f'{SCRAM} required username="x";',
        listener_name_plaintext_plain_sasl_jaas_config=f'{PLAIN} required user_a="b";',
    )
    assert found["PLAIN"].max_reauth_ms == 3
    server = SaslServer(found)
    server.handshake("PLAIN", 0)
    assert server.authenticate(b"\0a\0b", 0, 0).done


def test_an_unsupported_mechanism_prevents_the_start() -> None:
    for names in ("GSSAPI", "PLAIN,GSSAPI", "OAUTHBEARER"):
        with pytest.raises(ConfigError):
            mechanisms(sasl_enabled_mechanisms=names, sasl_jaas_config=f"{PLAIN} required;")
    with pytest.raises(ConfigError):
        mechanisms(sasl_enabled_mechanisms="PLAIN")
    with pytest.raises(ConfigError):
        mechanisms(sasl_enabled_mechanisms="PLAIN", sasl_jaas_config=f"{SCRAM} required;")
    assert list(mechanisms(sasl_enabled_mechanisms="SCRAM-SHA-512")) == ["SCRAM-SHA-512"]

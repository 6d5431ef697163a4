"""Subjects of certificates as Java writes them, and the rules that map them to user names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ottla.auth.distinguished_name import distinguished_name
from ottla.auth.principal import ANONYMOUS, user
from ottla.auth.ssl_principal_mapper import SslPrincipalMapper
from ottla.errors import KafkaError

# What Java's X500Principal.getName() says of a certificate that openssl made for this subject.
NAMES = {
    "/C=DE/ST=Some State/L=City/O=Acme, Inc\\/x/OU=A=B#/CN=alice": (
        "CN=alice,OU=A\\=B\\#,O=Acme\\, Inc/x,L=City,ST=Some State,C=DE"
    ),
    "/CN=x/emailAddress=a@b.c/DC=example/UID=u1/serialNumber=7/street=S": (
        "STREET=S,2.5.4.5=#130137,UID=u1,DC=example,1.2.840.113549.1.9.1=#16056140622e63,CN=x"
    ),
    '/O=x/CN=  two  /L=a\\\\b"<>;ü': 'L=a\\\\b\\"\\<\\>\\;ü,CN=\\ \\ two\\ \\ ,O=x',
}


def certificate(folder: Path, subject: str) -> bytes:
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    files = ["-nodes", "-keyout", str(folder / "key"), "-outform", "DER", "-utf8"]
    command = [*made, *files, "-days", "1", "-subj", subject, "-out", str(folder / "certificate")]
    subprocess.run(command, check=True, capture_output=True)
    return (folder / "certificate").read_bytes()


@pytest.mark.parametrize("subject", list(NAMES))
def test_a_subject_is_written_as_java_writes_it(tmp_path: Path, subject: str) -> None:
    assert distinguished_name(certificate(tmp_path, subject)) == NAMES[subject]


def test_a_malformed_certificate_is_refused(tmp_path: Path) -> None:
    whole = certificate(tmp_path, "/CN=x")
    for data in (b"", b"\x30", b"\x30\x00", whole[: len(whole) // 2], b"\x30\x03\x02\x01\x05"):
        with pytest.raises(ValueError):
            distinguished_name(data)


def test_a_certificate_whose_subject_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """OpenSSL accepts a PrintableString with bytes outside ASCII."""
    whole = certificate(tmp_path, "/CN=xyzzy")
    odd = whole.replace(b"\x0c\x05xyzzy", b"\x13\x05x\xffzzy")
    assert odd != whole
    with pytest.raises(KafkaError):
        SslPrincipalMapper("DEFAULT").principal(odd)


def test_the_subject_of_a_client_certificate_becomes_the_user(tmp_path: Path) -> None:
    mapping = SslPrincipalMapper("RULE:^CN=(.*?),OU=(.*)$/$1@$2/L, DEFAULT")
    assert mapping.principal(certificate(tmp_path, "/OU=Team/CN=Alice")) == user("alice@team")
    assert mapping.principal(certificate(tmp_path, "/CN=Alice")) == user("CN=Alice")
    assert mapping.principal(None) == ANONYMOUS


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        ("", "CN=a", "CN=a"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=kafka,OU=ServiceUsers,O=U", "kafka"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L", "CN=A,OU=B,O=C", "a@b"),
        ("RULE:^cn=(.*?)$/$1/,RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", "CN=a.b,O=c", "A.B"),
        ("RULE:CN=(?<who>.*)/$1$2/", "CN=a", "a$2"),
        ("RULE:CN=a\\/b/x\\/$0\\$1/", "CN=a/b", "x/CN=a/b$1"),
    ],
)
def test_the_first_rule_that_matches_decides(rules: str, subject: str, name: str) -> None:
    assert SslPrincipalMapper(rules).name(subject) == name


def test_a_name_without_a_matching_rule_is_refused() -> None:
    with pytest.raises(KafkaError):
        SslPrincipalMapper("RULE:^CN=a$/a/").name("CN=ab")


@pytest.mark.parametrize("rules", ["default", "RULE:a", "RULE:a/b", "RULE:(/b/", "RULE:a/b/X"])
def test_unreadable_rules_are_refused(rules: str) -> None:
    with pytest.raises(ValueError):
        SslPrincipalMapper(rules)

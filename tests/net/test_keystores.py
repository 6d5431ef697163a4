"""Keys and certificates in every supported form."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tls_rig import authority, issued

from ottla.config import ConfigError, StoreSettings
from ottla.net.keystores import read_keystore, read_truststore

KEYSTORE = StoreSettings("keystore", None, None, None, None)
TRUSTSTORE = StoreSettings("truststore", None, None, None, None)


def test_a_pem_file_has_key_and_chain() -> None:
    store = issued("broker").keystore
    for kind in (None, "PEM", "pem"):
        pair = read_keystore(replace(KEYSTORE, type=kind, location=str(store)))
        assert pair is not None
        assert "PRIVATE KEY" in pair.key
        assert pair.chain.count("BEGIN CERTIFICATE") == 2


def test_pem_text_may_stand_in_the_configuration_in_one_line() -> None:
    made = issued("broker")
    chain = " ".join(made.certificate.read_text().split("\n"))
    key = " ".join(made.key.read_text().split("\n"))
    pair = read_keystore(replace(KEYSTORE, type="PEM", certificates=chain, key=key))
    assert pair is not None
    assert pair.chain.count("\n") > 10
    trusted = read_truststore(replace(TRUSTSTORE, certificates=authority().certificate.read_text()))
    assert trusted is not None


def test_without_settings_there_is_no_keystore() -> None:
    assert read_keystore(KEYSTORE) is None
    assert read_truststore(TRUSTSTORE) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"location": "/no/such"}, "No such file"),
        ({"key": "x"}, "must be set together"),
        ({"key": "x", "certificates": "y"}, "no private key"),
        ({"key": "x", "certificates": "y", "type": "JKS"}, "must be PEM where"),
        ({"key": "x", "certificates": "y", "location": "z"}, "PEM text beside it"),
        ({"key": "x", "certificates": "y", "password": "z"}, "has no password"),
    ],
)
def test_a_wrong_keystore_is_refused_with_the_reason(change: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        read_keystore(replace(KEYSTORE, **change))  # type: ignore[arg-type]


def test_a_pem_keystore_with_a_store_password_is_refused_as_in_kafka() -> None:
    store = str(issued("broker").keystore)
    with pytest.raises(ConfigError, match="a PEM keystore has no password"):
        read_keystore(replace(KEYSTORE, type="PEM", location=store, password="x"))


def test_jks_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "store.jks"
    path.write_bytes(bytes.fromhex("feedfeed00000002"))
    with pytest.raises(ConfigError, match=f"keytool -importkeystore -srckeystore {path}"):
        read_keystore(replace(KEYSTORE, location=str(path)))


def pkcs12(path: Path) -> Path:
    made = issued("broker")
    given = ("-in", made.keystore, "-inkey", made.key, "-passout", "pass:secret")
    subprocess.run(("openssl", "pkcs12", "-export", *given, "-out", path), check=True)
    return path


def test_pkcs12_is_read_where_the_library_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="the extra [security] is not installed")
    store = str(pkcs12(tmp_path / "store.p12"))
    pair = read_keystore(replace(KEYSTORE, location=store, password="secret"))
    assert pair is not None
    assert pair.chain.count("BEGIN CERTIFICATE") == 2
    with pytest.raises(ConfigError, match="another password"):
        read_keystore(replace(KEYSTORE, location=store, password="wrong"))
    trusted = read_truststore(replace(TRUSTSTORE, location=store, password="secret"))
    assert trusted is not None


def test_pkcs12_without_the_library_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives", None)
    store = str(pkcs12(tmp_path / "store.p12"))
    with pytest.raises(ConfigError, match="openssl pkcs12 -in"):
        read_keystore(replace(KEYSTORE, location=store, password="secret"))

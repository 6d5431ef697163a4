"""A listener's TLS properties."""

from __future__ import annotations

from ottla.config.tls_settings import StoreSettings


def test_secrets_are_not_printed() -> None:
    store = StoreSettings("keystore", "PEM", "/x.pem", "secret-1", None, "secret-2", "secret-3")
    assert "secret" not in repr(store)
    assert "/x.pem" in repr(store)

"""Which settings of a connector REST masks."""

from __future__ import annotations

import pytest

from ottla.connect.secrets import HIDDEN, masked, unmasked


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("connection.password", "pw"),
        ("value.converter.basic.auth.user.info", "ann:pw"),
        ("value.converter.schema.registry.url", "https://ann:pw@registry:8081"),
        ("connection.url", "jdbc:postgresql://ann:pw@db/shop"),
    ],
)
def test_a_secret_is_masked_and_restored(name: str, value: str) -> None:
    config = {name: value, "topics": "orders"}
    shown = masked(config)
    assert shown == {name: HIDDEN, "topics": "orders"}
    assert unmasked(shown, config) == config


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("value.converter.schema.registry.url", "https://registry:8081"),
        ("connection.url", "jdbc:postgresql://db:5432/shop?user=ann@home"),
        ("connection.password", "${file:/etc/db:password}"),
    ],
)
def test_other_settings_are_shown(name: str, value: str) -> None:
    assert masked({name: value}) == {name: value}

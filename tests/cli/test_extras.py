"""A verb without its extra says what to install."""

from __future__ import annotations

import sys

import pytest

from ottla.cli.extras import EXTRAS, need_spark
from ottla.cli.kafka.tool import ToolError


def test_what_is_installed_is_no_reason_to_complain() -> None:
    need_spark("ottla sql")


def test_a_missing_package_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pyspark" else 1)
    with pytest.raises(ToolError) as raised:
        need_spark("ottla sql")
    assert str(raised.value) == (
        "`ottla sql` needs pyspark, which is not installed: pip install 'ottla[spark]'"
    )


def test_asking_imports_nothing() -> None:
    before = set(sys.modules)
    need_spark("ottla sql")
    assert not (set(sys.modules) - before) & set(EXTRAS["spark"])

"""The page of connectors: its tables are current, its examples work."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.connect.plugins import Plugins

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "connectors.md").read_text(encoding="utf-8")
EXAMPLES: list[dict[str, Any]] = [
    json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
]
STATEMENTS = "".join(re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL))


def test_tables_of_settings_are_current() -> None:
    path = ROOT / "tools" / "connectors_doc.py"
    spec = importlib.util.spec_from_file_location("connectors_doc", path)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.written(PAGE) == PAGE, "make connectors-doc"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["name"])
def test_examples_have_no_errors(example: dict[str, Any]) -> None:
    connector = Plugins().connector(example["config"]["connector.class"])()
    errors = [error for value in connector.validate(example["config"]) for error in value.errors]
    assert not errors

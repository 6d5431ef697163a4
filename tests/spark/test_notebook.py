"""The notebook of examples/, run cell by cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOTEBOOK = Path(__file__).parents[2] / "examples" / "topics_as_dataframes.ipynb"


def test_every_cell_of_the_notebook_runs(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert "spark.stop()" in code[-1]
    known: dict[str, Any] = {}
    try:
        for source in code[:-1]:  # the session is shared by all tests and stays open
            exec(compile(source, str(NOTEBOOK), "exec"), known)
        assert known["totals"].count() == 7
        amounts = [number % 50 + 0.5 for number in range(1000)]
        assert known["written"].count() == sum(amount > 40 for amount in amounts)
    finally:
        known["cluster"].stop()
    assert "product" in capsys.readouterr().out

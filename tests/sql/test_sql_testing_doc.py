"""docs/sql-testing.md: its Python runs, and its test file passes."""

from __future__ import annotations

import re
from pathlib import Path

from ottla.sql.testing.report import run_files

PAGE = Path(__file__).parents[2] / "docs" / "sql-testing.md"


def pieces(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_pages_python_runs() -> None:
    (piece,) = pieces("python")
    exec(piece, {})


def test_the_pages_file_passes(tmp_path: Path) -> None:
    path = tmp_path / "orders.sql"
    path.write_text(pieces("sql")[0])
    lines: list[str] = []
    assert run_files([path], lines.append), lines
    assert lines[-1].startswith("2 passed, 0 failed")

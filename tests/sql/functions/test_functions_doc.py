from __future__ import annotations

import runpy
from pathlib import Path

TOOL = Path(__file__).parents[3] / "tools" / "sql_functions.py"


def test_the_page_about_functions_is_current() -> None:
    tool = runpy.run_path(str(TOOL))

    assert tool["PATH"].read_text(encoding="utf-8") == tool["document"](), (
        "make functions-doc writes it"
    )

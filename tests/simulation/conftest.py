"""The simulation is judged by the checks of the fault tests (tests/chaos, tests/delivery)."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent
for folder in (HERE, TESTS / "chaos", TESTS / "delivery", TESTS / "compat"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

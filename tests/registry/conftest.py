"""The registry's tests share their broker processes with tests/compat."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "compat"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

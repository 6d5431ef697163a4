"""The fault tests of a cluster use those of one broker (tests/delivery)."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "delivery", HERE.parent / "compat"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

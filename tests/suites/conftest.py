"""The suites are a package beside src, not installed: these tests find it at the top."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

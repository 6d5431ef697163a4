"""Which build this is: with the hot modules compiled by mypyc, or all of them interpreted.

setup.py compiles all of `HOT` or none of it, so one module shows it for all.
"""

from __future__ import annotations

from typing import Final

from ottla import slices

COMPILED: Final = not str(slices.__file__).endswith(".py")
BUILD_NAME: Final = "compiled" if COMPILED else "interpreted"

"""Which build this is: the hot modules compiled by mypyc, or the same source interpreted.

setup.py compiles all of `HOT` or none of it, so one module answers for all.
"""

from __future__ import annotations

from typing import Final

from ottla import slices

COMPILED: Final = not str(slices.__file__).endswith(".py")
NAME: Final = "compiled" if COMPILED else "interpreted"

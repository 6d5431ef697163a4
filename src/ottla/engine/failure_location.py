"""Where an exception came from: the node of the topology, and the line of the user's code.

Both are read from the exception's traceback afterwards, so records that succeed cost nothing.
"""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final

import ottla

OTTLA_ROOT: Final = str(Path(ottla.__file__).parent)
LIBRARIES: Final = tuple(
    sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


def failed_node(error: BaseException, steps: Mapping[str, Callable[..., Any]]) -> str | None:
    """The innermost node on the stack; `steps` has the callable that a task calls for each node."""
    found = None
    for frame in _frames(error):
        for name, step in steps.items():
            if _is_call_of(step, frame):
                found = name
    return found


def failure_location(error: BaseException) -> str:
    """`/home/me/job.py:12, in <lambda>`: the innermost line outside Ottla and the libraries; empty
    if there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith((OTTLA_ROOT, *LIBRARIES)):
            return f"{frame.filename}:{frame.lineno}, in {frame.name}"
    return ""


def _frames(error: BaseException) -> Iterator[FrameType]:
    for frame, _ in traceback.walk_tb(error.__traceback__):
        yield frame


def _is_call_of(step: Callable[..., Any], frame: FrameType) -> bool:
    """Nodes of one kind share their code object: they differ in `self`, or in the closure."""
    function: Any = getattr(step, "__func__", step)
    code = getattr(function, "__code__", None)
    if code is not frame.f_code:
        return False
    if function is not step:
        return frame.f_locals.get(code.co_varnames[0]) is getattr(step, "__self__", None)
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    return all(frame.f_locals.get(name) is cell.cell_contents for name, cell in cells)

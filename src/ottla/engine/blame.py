"""Where an exception came from: the node of the topology, and the line of the user's code.

Both are read from the stack that the exception carries, after the fact: records that do not fail
pay nothing for it.
"""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final

import ottla

OURS: Final = str(Path(ottla.__file__).parent)
LIBRARIES: Final = tuple(
    sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


def node_of(error: BaseException, steps: Mapping[str, Callable[..., Any]]) -> str | None:
    """The last of the nodes on the stack; `steps` are what a task calls for each of them."""
    found = None
    for frame in _frames(error):
        for name, step in steps.items():
            if _is_call_of(step, frame):
                found = name
    return found


def line_of(error: BaseException) -> str:
    """`/home/me/job.py:12, in <lambda>`: the innermost line that is neither ours nor a library's;
    empty if there is none."""
    for place in reversed(traceback.extract_tb(error.__traceback__)):
        if not place.filename.startswith((OURS, *LIBRARIES)):
            return f"{place.filename}:{place.lineno}, in {place.name}"
    return ""


def _frames(error: BaseException) -> Iterator[FrameType]:
    for frame, _ in traceback.walk_tb(error.__traceback__):
        yield frame


def _is_call_of(step: Callable[..., Any], frame: FrameType) -> bool:
    """Nodes of one kind share their code: they differ in the processor, or in what their function
    was made with."""
    function: Any = getattr(step, "__func__", step)
    code = getattr(function, "__code__", None)
    if code is not frame.f_code:
        return False
    if function is not step:
        return frame.f_locals.get(code.co_varnames[0]) is getattr(step, "__self__", None)
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    return all(frame.f_locals.get(name) is cell.cell_contents for name, cell in cells)

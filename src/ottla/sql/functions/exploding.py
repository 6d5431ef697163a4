"""Functions that make many rows of one.

Their Spark text is an array. Several of them in one SELECT go in step, and the shorter ones end in
NULLs: `explode(arrays_zip(...))` is that. An empty or NULL array makes no row.
"""

from __future__ import annotations

from typing import Final

from ottla.sql.functions.python import containers as python
from ottla.sql.functions.table import Call, Function, FunctionKind, signature

FAMILY: Final = "Table functions"


def _cube(call: Call) -> str:
    """Each combination of the elements and NULLs: which, the bits of a number say, the first
    element has the highest. A NULL element has no bit, so that no combination comes twice."""
    array = call.texts[0]
    size = f"size({array})"
    numbers = f"sequence(0, CAST(pow(2, {size}) AS int) - 1)"
    bit = f"(shiftright(__n, {size} - 1 - __i) & 1)"
    kept = f"filter({numbers}, __n -> NOT exists(sequence(0, {size} - 1), __i -> "
    kept += f"{bit} = 1 AND get({array}, __i) IS NULL))"
    row = f"transform(sequence(0, {size} - 1), __i -> IF({bit} = 1, get({array}, __i), NULL))"
    return f"CASE WHEN {size} > 0 THEN transform({kept}, __n -> {row}) END"


TABLE_FUNCTIONS: Final = (
    Function(
        "CUBE_EXPLODE",
        FunctionKind.TABLE,
        FAMILY,
        "A row for each combination of the elements of an array with NULLs in their place.",
        (signature("ARRAY<T> array -> ARRAY<T>", _cube, python=python.combinations),),
    ),
    Function(
        "EXPLODE",
        FunctionKind.TABLE,
        FAMILY,
        "A row for each element of an array.",
        (signature("ARRAY<T> array -> T", "{0}", python=python.elements),),
    ),
)

"""Table functions, which make several rows of one.

Their text for Spark is an array. Several of them in one SELECT are zipped, and shorter ones are
filled with NULLs, as by `explode(arrays_zip(...))`. An empty or NULL array makes no row.
"""

from __future__ import annotations

from typing import Final

from ottla.sql.functions.function_registry import Call, Function, FunctionKind, signature
from ottla.sql.functions.python import arrays

FAMILY: Final = "Table functions"


def _cube(call: Call) -> str:
    """All combinations of elements and NULLs: the bits of a number select elements, the first has
    the highest bit. The bit of a NULL element is always 0, so no combination is repeated."""
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
        "A row for each combination of elements of an array and NULLs.",
        (signature("ARRAY<T> array -> ARRAY<T>", _cube, python=arrays.cube_explode),),
    ),
    Function(
        "EXPLODE",
        FunctionKind.TABLE,
        FAMILY,
        "A row for each element of an array.",
        (signature("ARRAY<T> array -> T", "{0}", python=arrays.explode),),
    ),
)

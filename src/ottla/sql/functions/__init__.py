"""The functions of the SQL."""

from ottla.sql.functions.aggregates import AGGREGATES
from ottla.sql.functions.containers import COLLECTIONS
from ottla.sql.functions.encodings import BYTES
from ottla.sql.functions.exploding import TABLE_FUNCTIONS
from ottla.sql.functions.json_text import JSON
from ottla.sql.functions.lambdas import LAMBDAS
from ottla.sql.functions.nulls import NULLS
from ottla.sql.functions.numeric import NUMERIC
from ottla.sql.functions.regular import REGULAR
from ottla.sql.functions.strings import STRINGS
from ottla.sql.functions.table import Function, FunctionKind, Functions, Signature
from ottla.sql.functions.times import TIMES
from ottla.sql.functions.urls import URLS
from ottla.sql.functions.user import MODULES, load_functions, python_function, udf

BUILTIN = Functions(
    [
        *NUMERIC,
        *STRINGS,
        *REGULAR,
        *BYTES,
        *COLLECTIONS,
        *LAMBDAS,
        *TIMES,
        *URLS,
        *JSON,
        *NULLS,
        *AGGREGATES,
        *TABLE_FUNCTIONS,
    ]
)
"""All that ksqlDB has; a server adds those of its `ottla.udf.modules` when it starts."""

__all__ = [
    "BUILTIN",
    "MODULES",
    "Function",
    "FunctionKind",
    "Functions",
    "Signature",
    "load_functions",
    "python_function",
    "udf",
]

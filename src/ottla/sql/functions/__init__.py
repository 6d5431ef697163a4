"""Functions of SQL, and user-defined ones: `from ottla.sql.functions import udf`.

    function_registry.py    FunctionRegistry: signatures, and how a call is resolved to one
    patterns.py             the types in signatures: `ARRAY<T>`, `DECIMAL`, `LAMBDA(K, V) => U`
    builtin_udafs.py        aggregates in Python

The other modules are tables of functions by category; each signature has its text for Spark SQL and
its implementation in Python (`python/`). `python tools/sql_functions.py` generates
docs/sql-functions.md from their descriptions. No module may import pyspark.
"""

from ottla.sql.functions.aggregates import AGGREGATES
from ottla.sql.functions.collections import COLLECTIONS
from ottla.sql.functions.encodings import BYTES
from ottla.sql.functions.function_registry import (
    Function,
    FunctionKind,
    FunctionRegistry,
    Signature,
)
from ottla.sql.functions.json_functions import JSON_FUNCTIONS
from ottla.sql.functions.lambdas import LAMBDAS
from ottla.sql.functions.nulls import NULLS
from ottla.sql.functions.numeric import NUMERIC
from ottla.sql.functions.regular_expressions import REGULAR_EXPRESSIONS
from ottla.sql.functions.strings import STRINGS
from ottla.sql.functions.table_functions import TABLE_FUNCTIONS
from ottla.sql.functions.times import TIMES
from ottla.sql.functions.urls import URLS
from ottla.sql.functions.user_functions import MODULES, load_user_functions, python_function, udf

BUILTIN = FunctionRegistry(
    [
        *NUMERIC,
        *STRINGS,
        *REGULAR_EXPRESSIONS,
        *BYTES,
        *COLLECTIONS,
        *LAMBDAS,
        *TIMES,
        *URLS,
        *JSON_FUNCTIONS,
        *NULLS,
        *AGGREGATES,
        *TABLE_FUNCTIONS,
    ]
)
"""All functions of ksqlDB. A server adds those of its `ottla.udf.modules` at startup."""

__all__ = [
    "BUILTIN",
    "MODULES",
    "Function",
    "FunctionKind",
    "FunctionRegistry",
    "Signature",
    "load_user_functions",
    "python_function",
    "udf",
]

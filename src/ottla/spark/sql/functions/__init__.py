"""The functions of the SQL."""

from ottla.spark.sql.functions.aggregates import AGGREGATES
from ottla.spark.sql.functions.containers import COLLECTIONS
from ottla.spark.sql.functions.encodings import BYTES
from ottla.spark.sql.functions.exploding import TABLE_FUNCTIONS
from ottla.spark.sql.functions.json_text import JSON
from ottla.spark.sql.functions.lambdas import LAMBDAS
from ottla.spark.sql.functions.nulls import NULLS
from ottla.spark.sql.functions.numeric import NUMERIC
from ottla.spark.sql.functions.registered import SESSION_SETTINGS, register_udfs
from ottla.spark.sql.functions.regular import REGULAR
from ottla.spark.sql.functions.strings import STRINGS
from ottla.spark.sql.functions.table import Function, FunctionKind, Functions, Signature
from ottla.spark.sql.functions.times import TIMES
from ottla.spark.sql.functions.urls import URLS
from ottla.spark.sql.functions.user import MODULES, load_functions, python_function, udf

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
    "SESSION_SETTINGS",
    "Function",
    "FunctionKind",
    "Functions",
    "Signature",
    "load_functions",
    "python_function",
    "register_udfs",
    "udf",
]

"""Pull queries beyond ksqlDB's grammar: parsed with Spark's grammar, by a dialect of sqlglot.

Names keep ksqlDB's rules: upper case unless quoted, `a->b` for fields, `x => ...` for lambdas,
arrays indexed from 1. Functions are Spark's.
"""

from __future__ import annotations

from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import NormalizationStrategy
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.optimizer.qualify_columns import quote_identifiers
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from ottla.rows.errors import SqlError


def _field(parser: Any, struct: exp.Expression, name: Any) -> exp.Expression:
    if isinstance(name, exp.Column):
        name = name.this
    if not isinstance(name, exp.Identifier):
        parser.raise_error("Expected the name of a field after ->")
    return exp.Dot(this=struct, expression=name)


class KsqlParser(SparkParser):
    LAMBDAS: ClassVar[Any] = {
        TokenType.FARROW: SparkParser.LAMBDAS[TokenType.ARROW],
    }
    COLUMN_OPERATORS: ClassVar[Any] = {**SparkParser.COLUMN_OPERATORS, TokenType.ARROW: _field}


class KsqlGenerator(SparkGenerator):
    TRANSFORMS: ClassVar[Any] = {
        **SparkGenerator.TRANSFORMS,
        exp.Dot: lambda self, it: f"{self.sql(it, 'this')}->{self.sql(it, 'expression')}",
        exp.Lambda: lambda self, it: self.lambda_sql(it, arrow_sep="=>"),
    }


class Ksql(Spark):
    """The dialect: Spark's SQL with ksqlDB's rules for names."""

    NORMALIZATION_STRATEGY = NormalizationStrategy.UPPERCASE
    INDEX_OFFSET = 1

    class Tokenizer(Spark.Tokenizer):
        IDENTIFIERS: ClassVar[Any] = ["`", '"']
        QUOTES: ClassVar[Any] = ["'"]
        STRING_ESCAPES: ClassVar[Any] = ["'"]

    Parser = KsqlParser
    Generator = KsqlGenerator


def parse_beyond(text: str) -> exp.Expression:
    """Parse a text with one query; names in the tree are quoted and in their final case."""
    try:
        tree = sqlglot.parse_one(text, dialect=Ksql)
    except SqlglotError as error:
        raise _refused(text, error) from None
    if not isinstance(tree, exp.Query):
        raise SqlError("expected a query", statement=text)
    named = normalize_identifiers(tree, dialect=Ksql)
    quote_identifiers(named, dialect=Ksql)
    assert isinstance(named, exp.Expression)
    return named


def format_beyond(tree: exp.Expression) -> str:
    return tree.sql(dialect=Ksql)


def limit_of(tree: exp.Expression) -> int | None:
    limit = tree.args.get("limit")
    count = limit.expression if isinstance(limit, exp.Limit) else None
    return int(count.this) if isinstance(count, exp.Literal) and count.is_int else None


def _refused(text: str, error: SqlglotError) -> SqlError:
    first: dict[str, Any] = (getattr(error, "errors", None) or [{}])[0]
    message = str(first.get("description") or error).split("\n")[0].rstrip(". ")
    message = message.partition(" but got <")[0]
    highlight = str(first.get("highlight") or "")
    near = f" near '{highlight}'" if highlight else ""
    column = int(first.get("col") or 0) - len(highlight) + 1
    return SqlError(
        f"{message[:1].lower()}{message[1:]}{near}",
        remedy="This is a pull query in Spark's grammar. Add EMIT CHANGES for a push query.",
        statement=text,
        line=int(first.get("line") or 0),
        column=max(column, 1),
    )

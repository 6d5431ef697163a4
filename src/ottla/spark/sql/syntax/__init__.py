"""The language: from text to statements, with no Spark and no catalog in sight."""

from ottla.spark.sql.syntax.beyond import parse_beyond as parse_beyond
from ottla.spark.sql.syntax.parser import parse as parse
from ottla.spark.sql.syntax.parser import parse_expression as parse_expression
from ottla.spark.sql.syntax.parser import parse_type as parse_type
from ottla.spark.sql.syntax.scanner import split as split
from ottla.spark.sql.syntax.writing import format_query as format_query
from ottla.spark.sql.syntax.writing import format_statement as format_statement
from ottla.spark.sql.syntax.writing_expressions import format_expression as format_expression

"""How ksqlDB's REST cases are read and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from suites.ksql.record_bytes import avro_value, protobuf_value
from suites.ksql.rest_cases import read_cases, read_json
from suites.ksql.rest_comparison import (
    admin_differences,
    error_differences,
    is_same,
    matches,
    query_differences,
)

FILE = """{"tests": [
  {"name": "one", // a comment
   "format": ["JSON", "AVRO"],
   "statements": [
     "CREATE STREAM s WITH (kafka_topic='test_topic', format='{FORMAT}', value_schema_id=3);",
     "SELECT * FROM s;"
   ]}
]}"""


def test_a_case_is_read_once_for_each_format(tmp_path: Path) -> None:
    (tmp_path / "cases.json").write_text(FILE)
    one, other = read_cases(tmp_path)
    assert (one.name, other.name) == ("cases/one - JSON", "cases/one - AVRO")
    assert "format='JSON'" in one.statements[0]
    assert "'test_topic_0_json'" in one.statements[0]
    assert "value_schema_id=3000" in one.statements[0]
    assert list(one.queries) == ["SELECT * FROM s;"]


@pytest.mark.parametrize(
    ("wanted", "found", "same"),
    [
        ("1", "1", True),
        ("1", "1.0", False),
        ("1.10", "1.1", False),
        ("1.0E7", "10000000.0", True),
        ('{"A": [1, null]}', '{"A": [1, null]}', True),
        ('{"A": 1}', '{"A": 1, "B": 2}', False),
    ],
)
def test_values_are_compared_as_java_does(wanted: str, found: str, same: bool) -> None:
    assert is_same(read_json(wanted), read_json(found)) is same


def test_values_of_records_are_compared_by_value() -> None:
    assert matches({"id": 1, "d": 1.0}, {"ID": 1, "D": 1})
    assert not matches({"id": True}, {"ID": 1})
    assert not matches({"id": None}, {"ID": 1})


def row(*columns: Any) -> dict[str, Any]:
    return {"row": {"columns": list(columns)}}


def test_rows_are_compared_in_any_order_unless_requested() -> None:
    one, two, end = row(1), row(2), {"finalMessage": "Limit Reached"}
    assert not list(query_differences([one, two, end], [two, one, end], is_ordered=False))
    assert list(query_differences([one, two, end], [two, one, end], is_ordered=True))
    assert list(query_differences([one, one], [one, two], is_ordered=False))
    assert list(query_differences([one], [one, two], is_ordered=False))
    assert list(query_differences([one, end], [one, two], is_ordered=False))


def test_only_what_a_case_names_is_compared() -> None:
    expected = {"@type": "currentStatus", "statementText": "{STATEMENT}"}
    expected["commandId|starts_with"] = "a/"
    actual = {"@type": "currentStatus", "statementText": "DROP X;", "commandId": "a/b", "more": 1}
    assert not list(admin_differences(expected, actual, "DROP X;"))
    assert list(admin_differences(expected, {**actual, "commandId": "b"}, "DROP X;"))


def test_errors_have_a_status_a_type_and_words() -> None:
    expected = {"type": "io.x.KsqlStatementErrorMessage", "message": "no such", "status": 400}
    error = {"@type": "statement_error", "statementText": "SELECT;", "message": "There is no such."}
    assert not list(error_differences(expected, 400, error, "SELECT;"))
    assert list(error_differences(expected, 500, error, "SELECT;"))
    assert list(error_differences(expected, 400, {**error, "@type": "generic_error"}, "SELECT;"))
    assert list(error_differences(expected, 400, {**error, "message": "Other."}, "SELECT;"))


def test_a_map_may_be_entries_in_avro_and_unknown_fields_are_left_out() -> None:
    entry = {"type": "record", "name": "E", "fields": [{"name": "key", "type": "string"},
             {"name": "value", "type": {"type": "array", "items": ["null", "int"]}}]}  # fmt: skip
    fields = [{"name": "VALUE", "type": ["null", {"type": "array", "items": entry}]}]
    schema = {"type": "record", "name": "R", "fields": fields}
    given = {"value": {"a": [1, None]}, "other": 5}
    assert avro_value(given, schema) == {"VALUE": [{"key": "a", "value": [1, None]}]}
    assert protobuf_value({"v": {"k": 1}, "other": 5}, {"V"}) == {"V": {"k": 1}}

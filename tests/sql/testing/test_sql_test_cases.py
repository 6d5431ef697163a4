"""`ottla sql test`: files of SQL with ASSERT statements."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ottla.cli.verbs.sql import app
from ottla.sql.testing.report import run_files

TOTALS = """
CREATE STREAM orders (id INT KEY, amount INT) WITH (KAFKA_TOPIC='orders', FORMAT='JSON');
CREATE TABLE totals AS SELECT id, SUM(amount) AS total FROM orders GROUP BY id
    HAVING SUM(amount) < 10;
INSERT INTO orders (ROWTIME, id, amount) VALUES (10, 1, 5);
"""


def run(tmp_path: Path, text: str) -> tuple[bool, list[str]]:
    path = tmp_path / "case.sql"
    path.write_text(text)
    lines: list[str] = []
    return run_files([path], lines.append), lines


def test_each_test_prints_a_line_and_starts_empty(tmp_path: Path) -> None:
    fine, lines = run(
        tmp_path,
        f"--@test: one\n{TOTALS}ASSERT VALUES totals (ROWTIME, id, total) VALUES (10, 1, 5);\n"
        "ASSERT TABLE totals (id INT PRIMARY KEY, total INT)"
        " WITH (KAFKA_TOPIC='TOTALS', FORMAT='JSON');\n"
        f"--@test: two\n{TOTALS}INSERT INTO orders (id, amount) VALUES (1, 5);\n"
        "ASSERT VALUES totals (id, total) VALUES (1, 5);\n"
        "ASSERT NULL VALUES totals (id) KEY (1);\n",
    )
    assert fine
    assert [line.split(" (")[0] for line in lines[:-1]] == ["ok     one", "ok     two"]
    assert lines[-1].startswith("2 passed, 0 failed")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("ASSERT VALUES totals (id, total) VALUES (1, 6);", "TOTAL=6"),
        ("ASSERT NULL VALUES totals (id) KEY (1);", "<TOMBSTONE> ID=1"),
        ("ASSERT VALUES totals (id, totals) VALUES (1, 6);", "has no column TOTALS"),
        ("ASSERT STREAM totals (id INT KEY) WITH (KAFKA_TOPIC='TOTALS', FORMAT='JSON');", "type"),
        ("SELEC 1;", "SELEC"),
    ],
)
def test_a_failed_assert_has_its_position(tmp_path: Path, statement: str, words: str) -> None:
    fine, lines = run(tmp_path, f"\n--@test: wrong\n{TOTALS}{statement}\n")
    assert not fine
    assert lines[0].startswith("FAILED wrong (")
    assert lines[0].endswith("case.sql:2)")
    assert words in "\n".join(lines)


def test_unread_records_fail_the_test(tmp_path: Path) -> None:
    assertion = "ASSERT VALUES totals (id, total) VALUES (1, 5);\n"
    fine, lines = run(tmp_path, TOTALS + assertion * 2)
    assert not fine
    assert "all records have already been read" in lines[1]


def test_a_test_may_expect_to_fail(tmp_path: Path) -> None:
    fine, lines = run(
        tmp_path,
        "--@test: refused\n--@expected.message: FOO does not exist.\n"
        "CREATE STREAM bar AS SELECT * FROM foo;\n"
        "--@test: another\n--@expected.error: java.lang.AssertionError\n"
        "CREATE STREAM bar AS SELECT * FROM foo;\n"
        "--@test: none\n--@expected.message: FOO\nSHOW STREAMS;\n",
    )
    assert not fine
    found = [line.split(" (")[0] for line in lines if line.startswith(("ok", "FAILED"))]
    assert found == ["ok     refused", "FAILED another", "FAILED none"]


def test_scripts_are_read_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "streams.sql").write_text(TOTALS)
    fine, _ = run(
        tmp_path,
        "RUN SCRIPT 'streams.sql';\nASSERT VALUES totals (id, total) VALUES (1, 5);\n",
    )
    assert fine


def test_unknown_directives_are_rejected(tmp_path: Path) -> None:
    fine, lines = run(tmp_path, "--@tests: one\nSHOW STREAMS;\n")
    assert not fine
    assert "unknown directive --@tests" in lines[0]


@pytest.mark.parametrize(("total", "code"), [(5, 0), (6, 1)])
def test_the_exit_code_is_1_after_a_failure(tmp_path: Path, total: int, code: int) -> None:
    path = tmp_path / "case.sql"
    path.write_text(f"{TOTALS}ASSERT VALUES totals (id, total) VALUES (1, {total});\n")
    result = CliRunner().invoke(app, ["test", str(path)])
    assert result.exit_code == code
    assert f"{1 - code} passed, {code} failed" in result.output

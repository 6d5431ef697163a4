"""`ottla sql` in a terminal and in a pipe."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ottla.cli.main import main
from ottla.extras import install_command

STREAMS = {
    "@type": "streams",
    "statementText": "SHOW STREAMS;",
    "streams": [
        {
            "type": "STREAM",
            "name": "ORDERS",
            "topic": "orders",
            "keyFormat": "KAFKA",
            "valueFormat": "JSON",
            "isWindowed": False,
        }
    ],
    "warnings": [],
}
FIELD = {"name": "AMOUNT", "schema": {"type": "DOUBLE", "fields": None, "memberSchema": None}}
DESCRIBED = {
    "@type": "source_descriptions",
    "sourceDescriptions": [{"name": "ORDERS", "type": "STREAM", "fields": [FIELD]}],
}
HEADER = {"queryId": "q", "columnNames": ["ID", "TEXT"], "columnTypes": ["BIGINT", "STRING"]}
REFUSED = {
    "@type": "statement_error",
    "error_code": 40001,
    "message": "line 2:3: unexpected 'FORM'\nDid you mean FROM?",
    "remedy": "Did you mean FROM?",
    "line": 2,
    "column": 3,
}

Open = Callable[..., Any]
Run = Callable[..., "Ran"]


def endless() -> Iterator[Any]:
    yield HEADER
    for number in itertools.count():
        yield [number, f"row {number}"]
        time.sleep(0.02)


def test_a_person_at_a_terminal(server: Any, terminal: Open, tmp_path: Path) -> None:
    server.answers = {
        "SHOW STREAMS;": [STREAMS],
        "SELECT *\nFROM orders EMIT CHANGES;": endless,
        "SELECT 1\n  FORM s;": REFUSED,
        "DESCRIBE STREAMS;": [DESCRIBED],
    }
    shell = terminal("sql", "--server", server.url)
    shell.expect("Type help for help")
    shell.expect("sql>")
    shell.type("SHOW STREAMS;\r")
    shell.expect(r"ORDERS\s+orders\s+KAFKA\s+JSON\s+false")
    shell.expect("sql>")
    shell.type("SELECT *\rFROM orders EMIT CHANGES;\r")  # Enter runs whole statements only
    shell.expect(r"│ ID +│ TEXT +│")
    shell.expect(r"│ 3 +│ row 3 +│")
    shell.type("\x03")
    shell.expect("query ended")
    assert server.ended.wait(240)
    shell.expect("sql>")
    shell.type("SELECT 1\r  FORM s;\r")
    shell.expect(r"  FORM s;\s+\^\s+error unexpected 'FORM'\s+Did you mean FROM\?")
    shell.expect("sql>")
    shell.type("nonsense\x03")  # Ctrl-C at the prompt clears the line
    shell.type("SET 'auto.offset.reset'='earliest';\r")
    shell.expect("auto.offset.reset = earliest")
    shell.type("help keys\r")
    shell.expect("runs a statement that ends with a semicolon")
    shell.expect("sql>")
    shell.type("\x04")
    assert shell.close() == 0
    history = (tmp_path / "state/ottla/sql_history").read_text()
    assert "SHOW STREAMS;" in history


def test_names_are_completed(server: Any, terminal: Open) -> None:
    server.answers = {"DESCRIBE STREAMS;": [DESCRIBED], "SELECT AMOUNT FROM ORDERS;": [HEADER]}
    shell = terminal("sql", "--server", server.url)
    shell.expect("sql>")
    for _ in range(100):  # until the shell has loaded the names in the background
        shell.type("DESCRIBE ORD\t")
        with contextlib.suppress(AssertionError):
            shell.expect("ORDERS", 2.0)
            break
        shell.type("\x03")
    shell.type("\x03")
    shell.expect("sql>")
    shell.type("SEL\t")
    shell.expect("SELECT")
    shell.type(" * FROM ORD\t")
    shell.expect("ORDERS")
    shell.type(" WHERE ORDERS.AM\t")
    shell.expect("AMOUNT")
    shell.type("\x03\x04")
    assert shell.close() == 0


class Ran(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """`ottla sql` with these words in this process, with a pipe for a terminal."""

    def running(*words: str, stdin: str = "") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = main(["sql", *words])
        shown = capsys.readouterr()
        return Ran(code, shown.out, shown.err)

    return running


def test_a_pipe(server: Any, run: Run) -> None:
    server.answers = {
        "SHOW STREAMS;": [STREAMS],
        "SELECT * FROM t;": [HEADER, [1, "one"], [2, None]],
        "PRINT orders;": ["Key format: STRING", "key: a, value: [b]"],
    }
    ran = run(
        "--server", server.url, stdin="SHOW STREAMS; -- all\nSELECT *\n FROM t;PRINT orders;\n"
    )
    assert ran.returncode == 0
    assert "ORDERS" in ran.stdout
    assert "key: a, value: [b]" in ran.stdout
    assert "\x1b" not in ran.stdout

    text = [body.get("ksql") or body.get("sql") for _, body in server.requests]
    assert text == ["SHOW STREAMS;", "SELECT *\n FROM t;", "PRINT orders;"]


def test_an_empty_table_shows_that_its_query_has_not_started(server: Any, run: Run) -> None:
    queries = [
        {"id": "CTAS_T_1", "sinks": ["T"], "state": "STARTING"},
        {"id": "CTAS_U_2", "sinks": ["U"], "state": "STARTING"},
        {"id": "CTAS_V_3", "sinks": ["V"], "state": "RUNNING"},
    ]
    server.answers = {
        "SELECT * FROM t;": [HEADER],
        "SELECT * FROM v;": [HEADER],
        "SHOW QUERIES;": [{"@type": "queries", "queries": queries}],
    }
    ran = run("--server", server.url, stdin="SELECT * FROM t;SELECT * FROM v;")
    assert ran.returncode == 0
    assert "0 rows\nCTAS_T_1, which writes T, is STARTING." in ran.stdout
    assert ran.stdout.count("which writes") == 1


@pytest.mark.parametrize(
    ("about", "note"),
    [
        (
            {"progress": {"rows": 0, "lag": 0, "batchMs": 0}},
            "CTAS_T_1, which writes T, is running, but has finished no batch yet: try again soon.",
        ),
        (
            {"progress": {"rows": 5, "lag": 1234, "batchMs": 7}},
            "CTAS_T_1, which writes T, still has 1,234 records to read.",
        ),
        ({"unreadable": ["3 records of t are left out."]}, "3 records of t are left out."),
        ({"progress": {"rows": 5, "lag": 0, "batchMs": 7}}, ""),
        ({}, ""),  # ksqlDB
    ],
)
def test_an_empty_table_shows_the_progress_of_its_query(
    server: Any, run: Run, about: dict[str, Any], note: str
) -> None:
    queries = [{"id": "CTAS_T_1", "sinks": ["T"], "state": "RUNNING"}]
    server.answers = {
        "SELECT * FROM t;": [HEADER],
        "SHOW QUERIES;": [{"@type": "queries", "queries": queries}],
        "EXPLAIN CTAS_T_1;": [{"@type": "queryDescription", "queryDescription": about}],
    }
    ran = run("--server", server.url, stdin="SELECT * FROM t;")
    assert ran.returncode == 0
    assert ran.stdout.partition("0 rows\n")[2] == (f"{note}\n" if note else "")


def test_a_server_that_lists_no_queries_does_not_spoil_an_empty_table(
    server: Any, run: Run
) -> None:
    server.answers = {"SELECT * FROM t;": [HEADER], "SHOW QUERIES;": REFUSED}
    ran = run("--server", server.url, stdin="SELECT * FROM t;")
    assert ran.returncode == 0
    assert "0 rows" in ran.stdout
    assert not ran.stderr


def test_properties_and_variables_go_with_each_statement(server: Any, run: Run) -> None:
    run(
        *("--server", server.url, "--set", "auto.offset.reset=earliest", "--define", "t=orders"),
        stdin="SET 'a'='1'; DEFINE x = 'y'; CREATE STREAM ${t} (a INT); UNSET 'a';\n"
        "SELECT * FROM ${t};",
    )
    (_, created), (_, queried) = server.requests
    assert created["streamsProperties"] == {"auto.offset.reset": "earliest", "a": "1"}
    assert created["sessionVariables"] == {"t": "orders", "x": "y"}
    assert created["ksql"] == "CREATE STREAM ${t} (a INT);"
    assert queried["properties"] == {"auto.offset.reset": "earliest"}


def test_a_property_refused_by_the_server_is_not_set(server: Any, run: Run) -> None:
    """Otherwise every later statement would be refused."""
    message = "Not recognizable as ksql, streams, consumer, or producer property: 'auto.ofset'"
    remedy = "Did you mean auto.offset.reset?"
    server.refused["auto.ofset"] = {
        "@type": "generic_error",
        "error_code": 40000,
        "message": f"{message}\n{remedy}",
        "remedy": remedy,
    }
    ran = run("--server", server.url, stdin="SET 'auto.ofset' = 'earliest';")
    assert ran.returncode == 1
    assert ran.stderr.split("\n") == [f"error {message}", f"      {remedy}", ""]
    server.refused["old"] = {"error_code": 40400, "message": "no such address"}
    ran = run("--server", server.url, stdin="SET 'old' = '1'; SHOW STREAMS;")
    assert ran.returncode == 0
    assert server.requests[-1][1]["streamsProperties"] == {"old": "1"}


def test_json_for_scripts(server: Any, run: Run) -> None:
    server.answers = {
        "SHOW STREAMS;": [STREAMS],
        "SELECT * FROM t;": [HEADER, [1, "one"], [2, None]],
    }
    ran = run("--server", server.url, "--output", "json", "-e", "SELECT * FROM t")
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [
        {"ID": 1, "TEXT": "one"},
        {"ID": 2, "TEXT": None},
    ]
    ran = run("--server", server.url, "--output", "json", "-e", "SHOW STREAMS;")
    assert json.loads(ran.stdout) == STREAMS


def test_a_file_stops_at_the_first_mistake(server: Any, run: Run, tmp_path: Path) -> None:
    server.answers = {"SELECT 1\n  FORM s;": REFUSED, "SHOW STREAMS;": [STREAMS]}
    inner = tmp_path / "inner.sql"
    inner.write_text("SELECT 1\n  FORM s;\nSHOW STREAMS;")
    outer = tmp_path / "outer.sql"
    outer.write_text(f"SHOW STREAMS; RUN SCRIPT '{inner}'; SHOW STREAMS;")
    ran = run("--server", server.url, "--file", str(outer))
    assert ran.returncode == 1
    assert ran.stdout.count("ORDERS") == 1
    assert "Did you mean FROM?" in ran.stderr
    assert "inner.sql: stopped" in ran.stderr


def test_the_shell_reports_its_own_errors(server: Any, run: Run) -> None:
    ran = run("--server", server.url, stdin="SET auto = 3;")
    assert ran.returncode == 1
    assert "    ^" in ran.stderr
    assert "Use single quotes for strings" in ran.stderr
    assert not server.requests
    gone = run("--server", "http://127.0.0.1:1", "-e", "SHOW STREAMS;")
    assert gone.returncode == 1
    assert "no server at http://127.0.0.1:1: Connection refused" in gone.stderr
    assert "`ottla sql-server` starts one" in gone.stderr
    assert "Traceback" not in gone.stderr
    lost = run("--server", server.url, "-e", "RUN SCRIPT 'nowhere.sql';")
    assert "Can't read nowhere.sql: No such file" in lost.stderr


def process(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla.cli", *words],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.mark.parametrize("missing", ["pyspark", "sqlglot"])
def test_without_the_extra_the_verb_shows_how_to_install_it(tmp_path: Path, missing: str) -> None:
    """A finder that knows of no such package stands for an installation without it."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util, sys\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, package=None: (\n"
        f"    None if name == {missing!r} else find(name, package))\n"
        "class Nobody:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] == {missing!r}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Nobody())\n"
    )
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    ran = process("sql", "-e", "SHOW STREAMS;", PYTHONPATH=path)
    assert ran.returncode == 1
    assert install_command("spark") in ran.stderr
    assert "Traceback" not in ran.stderr
    other = process("topics", "--help", PYTHONPATH=path)
    assert other.returncode == 0


def test_other_verbs_do_not_import_it() -> None:
    code = (
        "import sys, ottla.cli.app; ottla.cli.app.add_verbs([]);"
        "print([module for module in ('pyspark', 'sqlglot', 'prompt_toolkit', 'pyarrow')"
        " if module in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout == "[]\n"

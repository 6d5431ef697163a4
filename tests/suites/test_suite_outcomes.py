"""A small sample of each kind of output, as the programs print it."""

from __future__ import annotations

import json

import pytest
from suites.librdkafka_steps import read_run
from suites.outcomes import (
    REASON_CHARS_MAX,
    Outcome,
    read_go,
    read_jest,
    read_junit,
    read_librdkafka,
)

TABLE = """\
[0099_beer                   /  0.011s] Created    kafka instance 0099_beer#producer-1
#==================================================================#
|\x1b[32m <MAIN>                                   |     PASSED |   9.202s \x1b[0m|
|\x1b[32m 0099_beer                                |     PASSED |   1.180s \x1b[0m|
|\x1b[31m 0098_bread                  |     FAILED |  30.000s \x1b[0m| eat():12: no  butter
|\x1b[33m 0097_wine                   |    SKIPPED |   0.000s \x1b[0m| broker is too old
|\x1b[33m 0096_salt                                |    RUNNING |  61.000s \x1b[0m|
|\x1b[33m 0095_oil                                 |        DNS |   0.000s \x1b[0m|
#==================================================================#
"""


def go_lines(*events: tuple[str, str, str]) -> str:
    """`go tool test2json` of (action, test, output)."""
    return "\n".join(
        json.dumps({"Action": action, "Test": test, "Output": output})
        for action, test, output in events
    )


def test_librdkafka_table_gives_one_outcome_a_test() -> None:
    assert read_librdkafka(TABLE) == {
        "0099_beer": Outcome("passed"),
        "0098_bread": Outcome("failed", "eat():12: no butter"),
        "0097_wine": Outcome("skipped", "broker is too old"),
        "0096_salt": Outcome("failed", "it was still running at the end"),
        "0095_oil": Outcome("failed", "it did not start: the runner ended before"),
    }


def test_librdkafka_tests_count_where_the_table_is_cut_off() -> None:
    output = """\
[0099_beer     /  1.180s] \x1b[32m================= Test 0099_beer PASSED =================\x1b[0m
### Test "0098_bread" failed at bread.c:12:eat() at Tue Nov 17 20:25:20 2026: ###
no butter
| 0097_wine                                |     PASSED |   1.180s |
| 0096_sa"""
    assert read_librdkafka(output) == {
        "0099_beer": Outcome("passed"),
        "0098_bread": Outcome("failed", "no butter"),
        "0097_wine": Outcome("passed"),
    }


def test_librdkafka_runner_that_died_is_a_failure_of_its_last_test() -> None:
    output = "[0099_beer   /  0.011s] Created\nassertion failed: cold\n"
    [(name, outcome)] = read_run(output).items()
    assert name == "0099_beer"
    assert outcome.verdict == "failed"
    assert "assertion failed: cold" in outcome.reason


def test_go_counts_tests_without_subtests() -> None:
    output = go_lines(
        ("run", "TestBeer", ""),
        ("run", "TestBeer/cold", ""),
        ("pass", "TestBeer/cold", ""),
        ("run", "TestBeer/warm", ""),
        ("output", "TestBeer/warm", "    beer_test.go:7: it is warm\n"),
        ("output", "TestBeer/warm", "    --- FAIL: TestBeer/warm (0.00s)\n"),
        ("fail", "TestBeer/warm", ""),
        ("fail", "TestBeer", ""),
        ("run", "TestWine", ""),
        ("output", "TestWine", "    wine_test.go:9: no glass\n"),
        ("skip", "TestWine", ""),
    )
    assert read_go(output) == {
        "TestBeer/cold": Outcome("passed"),
        "TestBeer/warm": Outcome("failed", "beer_test.go:7: it is warm"),
        "TestWine": Outcome("skipped", "wine_test.go:9: no glass"),
    }


def test_go_parent_that_fails_by_itself_counts() -> None:
    output = go_lines(
        ("run", "TestBeer/cold", ""),
        ("pass", "TestBeer/cold", ""),
        ("output", "TestBeer", "    beer_test.go:3: the bill is wrong\n"),
        ("fail", "TestBeer", ""),
    )
    assert read_go(output)["TestBeer"] == Outcome("failed", "beer_test.go:3: the bill is wrong")


def test_go_test_without_an_end_has_failed() -> None:
    output = go_lines(
        ("run", "TestBeer", ""), ("output", "TestBeer", "panic: test timed out after 1s\n")
    )
    assert read_go(output) == {
        "TestBeer": Outcome("failed", "it did not end; panic: test timed out after 1s")
    }


def test_go_lines_of_other_kinds_are_passed_over() -> None:
    noise = 'warning\n{"Action"\n{"level":"info"}\n' + go_lines(("pass", "TestBeer", ""))
    assert read_go(noise) == {"TestBeer": Outcome("passed")}


JUNIT = """<?xml version="1.0"?>
<testsuites><testsuite name="pub">
 <testcase classname="pub.test_beer" name="test_cold"/>
 <testcase classname="pub.test_beer" name="test_warm">
  <failure message="assert 21 &lt; 8">the whole story</failure></testcase>
 <testcase classname="pub.test_beer" name="test_spilled"/>
 <testcase classname="pub.test_beer" name="test_spilled">
  <error>first line
last line</error></testcase>
 <testcase classname="pub.test_wine" name="test_red"><skipped message="no glass"/></testcase>
</testsuite></testsuites>"""


def test_junit_has_failures_errors_and_skips() -> None:
    assert read_junit(JUNIT) == {
        "pub.test_beer::test_cold": Outcome("passed"),
        "pub.test_beer::test_warm": Outcome("failed", "assert 21 < 8"),
        "pub.test_beer::test_spilled": Outcome("failed", "last line"),
        "pub.test_wine::test_red": Outcome("skipped", "no glass"),
    }


@pytest.mark.parametrize("said", ["x" * 5000, "word " * 5000])
def test_reasons_are_short(said: str) -> None:
    text = f'<a><testcase name="t"><failure message="{said}"/></testcase></a>'
    assert len(read_junit(text)["::t"].reason) == REASON_CHARS_MAX


def test_jest_has_an_outcome_for_each_test_and_for_a_file_without_tests() -> None:
    tests = [
        {"fullName": "a works", "status": "passed"},
        {"fullName": "a fails", "status": "failed", "failureMessages": ["expected 1"]},
        {"fullName": "a waits", "status": "pending"},
    ]
    broken = {"name": "/sources/b.spec.ts", "assertionResults": [], "message": "no such module"}
    files = [{"name": "/sources/a.spec.ts", "assertionResults": tests, "message": ""}, broken]
    assert read_jest(json.dumps({"testResults": files})) == {
        "a works": Outcome("passed"),
        "a fails": Outcome("failed", "expected 1"),
        "a waits": Outcome("skipped"),
        "b.spec.ts": Outcome("failed", "no such module"),
    }

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from suites.catalogue import SUITES
from suites.outcomes import Outcome
from suites.report import BEGIN, END, as_markdown, keep, kept_results, notes, write_docs
from suites.suite import KnownFailure
from suites.verdicts import RunResult, judge, with_reasons

KNOWN = (
    KnownFailure("warm", "the fridge is not built"),
    KnownFailure("sour", "old milk", frozenset({3})),
)


def judged(brokers: int = 1, known: tuple[KnownFailure, ...] = KNOWN, **verdicts: str) -> RunResult:
    outcomes = {
        name: Outcome(verdict, "said" if verdict == "failed" else "")  # type: ignore[arg-type]
        for name, verdict in verdicts.items()
    }
    return judge(outcomes, known, suite="pub", brokers=brokers, peer="ottla")


def test_failures_are_known_or_not() -> None:
    result = judged(cold="passed", warm="failed", spilled="failed", wine="skipped")
    assert (result.run, result.passed, result.skipped) == (3, 1, 1)
    assert [failure.test for failure in result.known] == ["warm"]
    assert [failure.test for failure in result.unknown] == ["spilled"]
    assert not result.is_good
    assert "pub on 1: FAILED spilled: said" in notes(result)


def test_a_known_failure_does_not_make_a_run_bad() -> None:
    assert judged(cold="passed", warm="failed").is_good


def test_a_known_failure_counts_on_its_own_number_of_brokers() -> None:
    assert judged(brokers=3, sour="failed").is_good
    assert not judged(brokers=1, sour="failed").is_good


def test_a_known_failure_that_passes_is_reported() -> None:
    assert judged(warm="passed").gone == ["warm"]
    assert judged(warm="skipped").gone == []
    assert judged(warm_beer="passed", warm_wine="failed").gone == []


def test_a_flaky_failure_may_pass() -> None:
    known = (KnownFailure("warm", "the sun", sometimes=True),)
    assert judged(known=known, warm="passed").gone == []
    assert judged(known=known, warm="failed").is_good


def test_later_reasons_apply_to_kept_results() -> None:
    result = judged(known=(), warm="failed", spilled="failed")
    later = with_reasons(result, KNOWN)
    assert [failure.test for failure in later.known] == ["warm"]
    assert [failure.test for failure in with_reasons(later, ()).known] == []


def test_trouble_around_the_tests_makes_a_run_bad() -> None:
    assert not RunResult("pub", 1, "ottla", passed=3, troubles=["broker 1 has died"]).is_good


def test_the_last_result_of_each_run_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a" / "results.json"
    first, second = judged(cold="failed"), judged(cold="passed")
    cluster = judged(brokers=3, cold="passed")
    for result in (first, cluster, second):
        keep(path, result)
    keep(path, RunResult("pub", 1, "ottla", not_run="no beer"))
    assert kept_results(path) == [second, cluster]
    keep(path, replace(first, troubles=["a traceback in a/server.log"]))
    kept, _ = kept_results(path)
    assert [(failure.test, failure.said) for failure in kept.failures] == [("cold", "")]
    assert kept.troubles == []


def test_docs_keep_the_text_around_the_table(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_docs(page, [judged(cold="passed", warm="failed", spilled="failed")])
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| pub | 1 | 3 | 1 | 1 | 1 | 0 |" in text
    assert "`warm`: the fridge is not built." in text
    assert "`spilled`: not known." in text
    write_docs(page, [])
    assert "spilled" not in page.read_text()


def test_docs_list_omissions_within_their_columns() -> None:
    text = as_markdown([], SUITES)
    assert "- confluent-kafka-python: `schema_registry`: " in text
    assert [line for line in text.splitlines() if len(line) > 100] == []


def test_docs_without_markers_are_not_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("no markers")
    with pytest.raises(ValueError, match="markers"):
        write_docs(page, [])
    assert page.read_text() == "no markers"


def test_many_tests_of_one_reason_are_one_line() -> None:
    result = judged(**{f"warm_{number}": "failed" for number in range(9)})
    assert "and 3 more: the fridge is not built." in " ".join(as_markdown([result]).split())


def test_every_exception_in_the_catalogue_has_a_reason() -> None:
    assert len({suite.name for suite in SUITES}) == len(SUITES)
    for suite in SUITES:
        assert all(suite.left_out.values()), suite.name
        assert all(entry.reason for entry in suite.known), suite.name

from __future__ import annotations

import io
import json

from benchmarks.brokers import KAFKA, OTTLA
from benchmarks.figures import Figure, cost, rate
from benchmarks.rounds import CollectedFigures
from rich.console import Console

from benchmarks import report


def collect(**by_broker: list[Figure]) -> CollectedFigures:
    collected = CollectedFigures()
    for broker, figures in by_broker.items():
        for figure in figures:
            collected.add(broker, [figure])
    return collected


def test_median_of_rounds_and_ratio_of_a_rate() -> None:
    ours = [rate("produce", "records/s", value, cpu_us=2.0) for value in (100.0, 300.0, 200.0)]
    theirs = [rate("produce", "records/s", 100.0)]
    [line] = report.lines_of(collect(ottla=ours, kafka=theirs))
    assert line.by_broker[OTTLA].median == 200
    assert line.by_broker[OTTLA].spread == 0.5
    assert line.by_broker[OTTLA].cpu_us == 2.0
    assert line.by_broker[KAFKA].cpu_us is None
    assert (line.ratio, line.verdict) == (2.0, "better")


def test_ratio_of_a_cost_is_above_one_when_ottla_has_less() -> None:
    [line] = report.lines_of(
        collect(ottla=[cost("p99", "ms", 5.0)], kafka=[cost("p99", "ms", 10.0)])
    )
    assert (line.ratio, line.verdict) == (2.0, "better")


def test_small_differences_are_equal_and_large_ones_are_not_hidden() -> None:
    def verdict(ours: float) -> str:
        figures = {OTTLA: [rate("x", "/s", ours)], KAFKA: [rate("x", "/s", 100.0)]}
        return report.lines_of(collect(**figures))[0].verdict

    assert [verdict(value) for value in (90.0, 98.0, 102.0, 110.0)] == [
        "worse",
        "equal",
        "equal",
        "better",
    ]


def test_one_broker_alone_has_no_ratio() -> None:
    [line] = report.lines_of(collect(kafka=[rate("x", "/s", 1.0)]))
    assert (line.ratio, line.verdict) == (None, "")


def test_zero_is_no_reason_to_fail() -> None:
    [line] = report.lines_of(collect(ottla=[cost("x", "ms", 0.0)], kafka=[cost("x", "ms", 1.0)]))
    assert (line.ratio, line.verdict) == (None, "better")
    assert line.by_broker[OTTLA].spread == 0.0


def test_table_markdown_and_json_agree() -> None:
    collected = collect(
        ottla=[rate("produce", "records/s", 1_234_567.0, cpu_us=1.5)],
        kafka=[rate("produce", "records/s", 1_000_000.0)],
    )
    lines, facts = report.lines_of(collected), {"machine": "2 CPUs [here]"}
    out = io.StringIO()
    report.print_report(Console(file=out, width=150), lines, facts, ["consume on kafka: [why]"])
    for text in (out.getvalue(), report.as_markdown(lines, facts)):
        assert "1,234,567" in text
        assert "1.23x" in text
        assert "better" in text
        assert "2 CPUs [here]" in text
    assert "consume on kafka: [why]" in out.getvalue()
    stored = json.loads(json.dumps(report.as_json(lines, facts, [])))
    assert stored["figures"][0]["ottla"] == {
        "median": 1_234_567.0,
        "rounds": [1_234_567.0],
        "cpu_us": 1.5,
    }
    assert stored["figures"][0]["verdict"] == "better"


def test_numbers_are_short() -> None:
    texts = [report.number_text(value) for value in (1234.5, 99.96, 12.34, 1.234, 0.0)]
    assert texts == ["1,234", "100.0", "12.3", "1.23", "0.00"]

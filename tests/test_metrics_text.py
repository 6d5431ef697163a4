"""Prometheus' text format, as its own client library reads it."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families as parse

from ottla.metrics import Histogram, MetricFamily, Sample, by_label, counter, gauge, lines


def text(*families: MetricFamily) -> str:
    return "".join(line for family in families for line in lines(family))


def test_a_gauge_and_a_counter_are_one_line_each() -> None:
    written = text(gauge("a", "Some.", 3), counter("b_total", "More.", 0.25))
    assert written == (
        "# HELP a Some.\n# TYPE a gauge\na 3\n# HELP b_total More.\n# TYPE b_total counter\n"
        "b_total 0.25\n"
    )


def test_label_values_are_escaped() -> None:
    strange = 'back\\slash "quoted"\nsecond line'
    (family,) = parse(text(by_label("a", "gauge", "One\\two\nlines", "topic", [(strange, 7)])))
    assert family.documentation == "One\\two\nlines"
    (sample,) = family.samples
    assert sample.labels == {"topic": strange}
    assert sample.value == 7


def test_a_histogram_counts_cumulatively() -> None:
    histogram = Histogram((1000, 2500))
    for value in (500, 1000, 2000, 99000):
        histogram.observe(value)
    (family,) = parse(
        text(MetricFamily("ms", "histogram", "x", histogram.samples({"request": "A"}, unit=1000)))
    )
    found = {(sample.name, sample.labels.get("le")): sample.value for sample in family.samples}
    assert found == {
        ("ms_bucket", "1"): 2,
        ("ms_bucket", "2.5"): 3,
        ("ms_bucket", "+Inf"): 4,
        ("ms_sum", None): 102.5,
        ("ms_count", None): 4,
    }
    assert all(sample.labels["request"] == "A" for sample in family.samples)


def test_samples_are_taken_while_the_text_is_written() -> None:
    values = {"x": 1}
    family = MetricFamily(
        "a", "gauge", "x", (Sample({"k": key}, value) for key, value in values.items())
    )
    values["x"] = 2
    assert text(family).endswith('a{k="x"} 2\n')

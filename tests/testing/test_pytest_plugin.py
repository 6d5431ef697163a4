"""The plugin as a project sees it: a pytest run of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

RUN_S_MAX = 60.0


def run(pytester: pytest.Pytester, tests: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(tests)
    return pytester.runpytest_subprocess("-W", "error", *options, timeout=RUN_S_MAX)


def test_kafka_is_fresh_and_kafka_session_is_shared(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        seen = []

        @pytest.mark.parametrize("turn", [0, 1])
        def test_fixtures(kafka, kafka_session, turn):
            kafka.create_topic("orders")
            kafka_session.create_topic(f"orders-{turn}")
            with kafka.producer(value=str) as producer:
                producer.send("orders", "one beer").result(60)
            with kafka.consumer("orders", group="bar", value=str) as consumer:
                assert consumer.poll(30).value == "one beer"
            seen.append((kafka.directory, kafka_session.port))

        def test_what_was_seen():
            (first, port), (second, same_port) = seen
            assert first != second
            assert port == same_port
            assert not first.exists() and not second.exists()
        """,
    )
    result.assert_outcomes(passed=3)


def test_properties_come_from_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        """
        [pytest]
        kafka_properties =
            num.partitions = 3
            auto.create.topics.enable=true
        """
    )
    result = run(
        pytester,
        """
        def test_partitions(kafka, kafka_session):
            for cluster in (kafka, kafka_session):
                with cluster.producer() as producer:
                    producer.send("orders", b"beer").result(60)
                with cluster.admin() as admin:
                    assert len(admin.topics.describe("orders")["orders"].partitions) == 3
        """,
    )
    result.assert_outcomes(passed=1)


def test_a_malformed_property_line_is_named(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkafka_properties = num.partitions")
    result = run(pytester, "def test_it(kafka): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*kafka_properties: 'num.partitions': expected name=value*"])


def test_a_run_without_kafka_imports_nothing_but_the_plugin() -> None:
    script = (
        "import pytest, sys; before = set(sys.modules); import ottla.testing.plugin;"
        "print(*sorted(set(sys.modules) - before))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    )
    assert found.stdout.split() == ["ottla", "ottla.testing", "ottla.testing.plugin"]

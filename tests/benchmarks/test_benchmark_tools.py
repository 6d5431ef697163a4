"""Real outputs of Kafka's tools, of /proc and of the profiler."""

from __future__ import annotations

import os

import pytest

from benchmarks import bench, perf_tools, processes, profile_broker

PRODUCED = """\
Reading payloads from: /tmp/p1000
Number of records read: 100
Warmup first 200000 records. Steady state results will print after the complete test summary.
23713 records sent, 4739.8 records/sec (4.52 MB/sec), 1912.0 ms avg latency, 2446.0 ms max latency.
In steady state.
600000 records sent, 25751.072961 records/sec (24.56 MB/sec), 1118.24 ms avg latency, \
3216.00 ms max latency, 971 ms 50th, 2737 ms 95th, 3042 ms 99th, 3195 ms 99.9th.
"""
STEADY = """\
400000 steady state records sent, 34527.406129 records/sec (32.93 MB/sec), 846.25 ms avg latency, \
1529.00 ms max latency, 730 ms 50th, 1477 ms 95th, 1506 ms 99th, 1514 ms 99.9th.
"""


def test_produced_takes_the_steady_state_when_there_is_one() -> None:
    assert perf_tools.parse_produced(PRODUCED + STEADY).rate == pytest.approx(34527.406129)


def test_produced_takes_the_whole_run_when_nothing_was_warm_up() -> None:
    assert perf_tools.parse_produced(PRODUCED).rate == pytest.approx(25751.072961)


def test_produced_without_a_summary_is_an_error_that_shows_the_output() -> None:
    with pytest.raises(processes.ToolError, match="Connection refused"):
        perf_tools.parse_produced("Connection refused\n")


def test_consumed_takes_the_rate_without_the_time_of_the_rebalance() -> None:
    line = (
        "2026-11-15T22:27:42.972, 2026-11-15T22:27:49.472, 572.2427, 88.0373, 600040, "
        "92313.8462, 2321, 4179, 136.9329, 143584.5896\n"
    )
    consumed = perf_tools.parse_consumed("WARNING: something, of, another\n" + line)
    assert consumed.rate == pytest.approx(143584.5896)
    assert consumed.count == 600040
    assert consumed.ended_at_ms % 1000 == 472


def test_consumed_without_a_result_is_an_error() -> None:
    with pytest.raises(processes.ToolError):
        perf_tools.parse_consumed("Exiting before consuming the expected number of records\n")


def test_end_to_end_reads_mean_and_percentiles() -> None:
    output = (
        "0\t316.699664\n1000\t1.4325\nAvg latency: 3.0657 ms\n"
        "Percentiles: 50th = 1, 99th = 18, 99.9th = 167\n"
    )
    result = perf_tools.parse_end_to_end(output)
    assert (result.mean_ms, result.p50_ms, result.p99_ms, result.p999_ms) == (3.0657, 1, 18, 167)


def test_last_json_is_found_between_log_lines() -> None:
    output = '{"ready": true}\n{"acked": 3}\n%3|1.2|FAIL|rdkafka#1| gone\n'
    assert bench.last_json(output) == {"acked": 3}
    with pytest.raises(processes.ToolError, match="no result"):
        bench.last_json("nothing\n")


def test_stat_ticks_survive_blanks_and_brackets_in_the_name() -> None:
    fields = " ".join(str(number) for number in range(4, 53))
    assert processes.parse_stat_ticks(f"77 (a (b) c) S {fields}") == 14 + 15 + 16 + 17


def test_kb_lines_leave_out_what_is_not_in_kb() -> None:
    text = "Name:\tpython\nVmHWM:\t  81234 kB\nThreads:\t3\n"
    assert processes.parse_kb_lines(text) == {"VmHWM": 81234}


def test_own_process_has_cpu_time_and_memory() -> None:
    pid = os.getpid()
    assert pid in processes.process_tree(pid)
    assert processes.cpu_seconds(pid) > 0
    assert processes.memory(pid).rss_bytes > 1_000_000
    assert processes.peak_memory_bytes(pid) > 1_000_000


def test_tool_that_fails_shows_the_end_of_its_output() -> None:
    with pytest.raises(processes.ToolError, match="exit code 3") as caught:
        processes.run_tool(["sh", "-c", "echo why; exit 3"], timeout_s=60)
    assert "why" in str(caught.value)


def test_tool_that_hangs_is_killed() -> None:
    with (
        pytest.raises(processes.ToolError, match="no end after"),
        processes.started_tool(["sleep", "60"]) as process,
    ):
        processes.finish_tool(process, timeout_s=0.01)
    assert process.returncode is not None


def test_profile_counts_a_function_once_a_stack() -> None:
    stacks = [
        "main (/w/src/ottla/cli/main.py:3);append (/w/src/ottla/storage/log.py:120) 7",
        "main (/w/src/ottla/cli/main.py:3);append (/w/src/ottla/storage/log.py:99) 2",
        "main (/w/src/ottla/cli/main.py:3);main (/w/src/ottla/cli/main.py:9) 1",
        "",
    ]
    own, total, samples = profile_broker.by_function(stacks)
    assert samples == 10
    assert own == {"ottla/storage/log.py append": 9, "ottla/cli/main.py main": 1}
    assert total["ottla/cli/main.py main"] == 10


def test_profile_leaves_a_native_frame_as_it_is() -> None:
    assert profile_broker.short_frame("__libc_send") == "__libc_send"
    frame = "run (/v/lib/site-packages/uvloop/__init__.py:5)"
    assert profile_broker.short_frame(frame) == "uvloop/__init__.py run"

"""Kafka's verifiable clients: the lines of Apache Kafka 4.3.1, field by field."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from local_services import WAIT_S_MAX

from ottla.cli.kafka import verifiable_consumer, verifiable_producer, verifiable_share_consumer
from ottla.client import Admin, Consumer, ErrorCode, KafkaError, TopicPartition

Run = Callable[..., Any]

# What Kafka's own tools print, on this broker, for the same command lines; times are left out.
SENT = '{"timestamp":T,"name":"producer_send_success","key":"1","value":"1","offset":1,"topic":"TOPIC","partition":0}'  # noqa: E501
FAILED = '{"timestamp":T,"name":"producer_send_error","topic":"bad topic","key":null,"value":"0","exception":"class org.apache.kafka.common.errors.InvalidTopicException","message":'  # noqa: E501
SUMMARY = (
    '{"timestamp":T,"name":"tool_data","sent":3,"acked":3,"target_throughput":-1,"avg_throughput":'
)
READ = """\
{"timestamp":T,"name":"startup_complete"}
{"timestamp":T,"name":"partitions_assigned","partitions":[{"topic":"TOPIC","partition":0}]}
{"timestamp":T,"name":"record_data","key":"k0","value":"0","topic":"TOPIC","partition":0,"offset":0}
{"timestamp":T,"name":"record_data","key":"k1","value":"1","topic":"TOPIC","partition":0,"offset":1}
{"timestamp":T,"name":"records_consumed","count":2,"partitions":[{"topic":"TOPIC","partition":0,"count":2,"minOffset":0,"maxOffset":1}]}
{"timestamp":T,"name":"offsets_committed","offsets":[{"topic":"TOPIC","partition":0,"offset":2}],"success":true}
{"timestamp":T,"name":"partitions_revoked","partitions":[{"topic":"TOPIC","partition":0}]}
{"timestamp":T,"name":"shutdown_complete"}
{"timestamp":T,"name":"shutdown_requested"}
"""


def shown(text: str, topic: str) -> str:
    """Without what differs from run to run."""
    return re.sub(r'"timestamp":\d+', '"timestamp":T', text).replace(topic, "TOPIC")


def test_a_line_for_each_record(run: Run, bootstrap: str, admin: Admin, topic: str) -> None:
    admin.topics.create(topic, 1)
    words = ("--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", "3")
    done = run(verifiable_producer.main, *words, "--repeating-keys", "2")
    lines = shown(done.out, topic).splitlines()
    assert lines[0] == '{"timestamp":T,"name":"startup_complete"}'
    assert lines[2] == SENT
    assert '"key":"0","value":"2"' in lines[3]
    assert lines[4] == '{"timestamp":T,"name":"shutdown_complete"}'
    assert lines[5].startswith(SUMMARY)
    assert done.code == 0


def test_a_record_that_fails_has_its_line(run: Run, bootstrap: str) -> None:
    words = ("--bootstrap-server", bootstrap, "--topic", "bad topic", "--max-messages", "1")
    done = run(verifiable_producer.main, *words)
    assert shown(done.lines[1], "none").startswith(FAILED)
    assert '"sent":1,"acked":0' in done.lines[3]


def test_prefixes_and_times(run: Run, bootstrap: str, admin: Admin, topic: str) -> None:
    admin.topics.create(topic, 1)
    words = ("--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", "2")
    run(verifiable_producer.main, *words, "--value-prefix", "7", "--message-create-time", "1000")
    with Consumer(bootstrap, topic, value=str, auto_offset_reset="earliest") as consumer:
        records = consumer.take(2)
    assert [record.value for record in records] == ["7.0", "7.1"]
    assert records[0].timestamp_ms == 1000


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_verifiable_consumer_prints_its_events(
    run: Run, bootstrap: str, five: str, group: str, protocol: str
) -> None:
    words = ("--bootstrap-server", bootstrap, "--topic", five, "--group-id", group)
    limits = ("--max-messages", "2", "--verbose", "--group-protocol", protocol)
    done = run(verifiable_consumer.main, *words, *limits)
    assert shown(done.out, five) == READ
    assert done.code == 0
    rest = run(verifiable_consumer.main, *words, "--max-messages", "3")
    assert '"minOffset":2,"maxOffset":4' in rest.out  # where the first one has committed


def test_a_signal_ends_both_tools_cleanly(bootstrap: str, five: str, group: str) -> None:
    module = "ottla.cli.kafka.verifiable_consumer"
    words = ["--bootstrap-server", bootstrap, "--topic", five, "--group-id", group]
    consumer = subprocess.Popen(
        [sys.executable, "-m", module, *words], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    assert consumer.stdout is not None
    events: list[dict[str, Any]] = []
    for line in consumer.stdout:
        events.append(json.loads(line))
        if events[-1]["name"] == "offsets_committed":
            consumer.send_signal(signal.SIGTERM)
    assert consumer.wait(WAIT_S_MAX) == 0
    consumer.stdout.close()
    assert [event["name"] for event in events[-3:]] == [
        "shutdown_requested",
        "partitions_revoked",
        "shutdown_complete",
    ]


def test_wrong_options_and_unreachable_addresses_are_reported(run: Run) -> None:
    wrong = run(verifiable_producer.main, "--topic", "x")
    assert wrong.code == 1
    assert "--bootstrap-server" in wrong.err
    words = ("--topic", "x", "--bootstrap-server", "localhost:1")
    assert run(verifiable_producer.main, *words).code == 1
    assert "refused" in run(verifiable_consumer.main, *words, "--group-id", "g").err
    assert "usage: verifiable-consumer" in run(verifiable_consumer.main).out


# What Kafka's VerifiableShareConsumer prints, from its source; the acknowledgement mode makes no
# difference to the lines.
SHARED = """\
{"timestamp":T,"name":"startup_complete"}
{"timestamp":T,"name":"offset_reset_strategy_set","offsetResetStrategy":"earliest"}
{"timestamp":T,"name":"record_data","key":"k0","value":"0","topic":"TOPIC","partition":0,"offset":0}
{"timestamp":T,"name":"record_data","key":"k1","value":"1","topic":"TOPIC","partition":0,"offset":1}
{"timestamp":T,"name":"record_data","key":"k2","value":"2","topic":"TOPIC","partition":0,"offset":2}
{"timestamp":T,"name":"record_data","key":"k3","value":"3","topic":"TOPIC","partition":0,"offset":3}
{"timestamp":T,"name":"record_data","key":"k4","value":"4","topic":"TOPIC","partition":0,"offset":4}
{"timestamp":T,"name":"records_consumed","count":5,"partitions":[{"topic":"TOPIC","partition":0,"count":5,"offsets":[0,1,2,3,4]}]}
{"timestamp":T,"name":"offsets_acknowledged","count":5,"partitions":[{"topic":"TOPIC","partition":0,"count":5,"offsets":[0,1,2,3,4]}],"success":true}
{"timestamp":T,"name":"shutdown_complete"}
"""


@pytest.mark.parametrize("mode", ["auto", "sync", "async"])
def test_what_a_share_consumer_does(
    run: Run, bootstrap: str, five: str, group: str, mode: str
) -> None:
    words = ("--bootstrap-server", bootstrap, "--topic", five, "--group-id", group)
    limits = ("--max-messages", "5", "--verbose", "--acknowledgement-mode", mode)
    done = run(
        verifiable_share_consumer.main, *words, *limits, "--offset-reset-strategy", "Earliest"
    )
    assert shown(done.out, five) == SHARED
    assert done.code == 0


def test_acknowledgements_that_fail_do_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    acknowledged = verifiable_share_consumer.Acknowledgements()
    place = TopicPartition("TOPIC", 0)
    acknowledged.add({place: {7, 6}}, KafkaError(ErrorCode.INVALID_RECORD_STATE, "too late"))
    acknowledged.add({place: {8}}, None)
    refused, stored = shown(capsys.readouterr().out, "none").splitlines()
    assert refused == (
        '{"timestamp":T,"name":"offsets_acknowledged","count":2,"partitions":[{"topic":"TOPIC",'
        '"partition":0,"count":2,"offsets":[6,7]}],"error":"too late",'
        '"success":false}'
    )
    assert stored.endswith('"count":1,"offsets":[8]}],"success":true}')
    assert acknowledged.count == 1


def test_a_share_group_without_such_a_strategy(run: Run, bootstrap: str, five: str) -> None:
    words = ("--bootstrap-server", bootstrap, "--topic", five, "--group-id", "g")
    done = run(verifiable_share_consumer.main, *words, "--offset-reset-strategy", "sometime")
    assert done.code == 1
    assert "Invalid value sometime for configuration share.auto.offset.reset" in done.err
    assert run(verifiable_share_consumer.main, *words, "--acknowledgement-mode", "never").code == 1

"""`ottla topics|produce|consume|groups|configs|bench|dump-log`."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from ottla.cli.app import add_verbs, app
from ottla.cli.main import main
from ottla.client import Admin, Consumer
from ottla.records.batch import build_batch
from ottla.records.record import Record

Tool = Callable[..., Any]

VERBS = (
    "topics",
    "produce",
    "consume",
    "groups",
    "transactions",
    "configs",
    "sql",
    "bench",
    "dump-log",
)


@pytest.fixture
def ottla(run: Tool, bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Tool:
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", bootstrap)
    return lambda *words, stdin="": run(main, *words, stdin=stdin)


def test_help_has_examples(ottla: Tool) -> None:
    ran = ottla("--help")
    assert ran.code == 0
    assert "serve" in ran.out
    for verb in VERBS:
        assert verb in ran.out
        assert f"ottla {verb}" in ottla(verb, "--help").out
    assert "ottla topics create orders" in ottla("topics", "create", "--help").out
    assert ran.out.index(" serve ") < ran.out.index(" topics ") < ran.out.index(" dump-log ")
    assert ottla("--version").out.startswith("ottla ")


def test_a_verb_does_not_import_the_others() -> None:
    code = (
        "import sys, ottla.cli.app as app; app.add_verbs(['topics', 'list']);"
        "print(sorted(name for name in sys.modules if name.startswith('ottla.cli.verbs.')))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "ottla.cli.verbs.topics" in ran.stdout
    assert "ottla.cli.verbs.bench" not in ran.stdout


def test_a_topics_life(ottla: Tool, topic: str) -> None:
    created = ottla("topics", "create", topic, "-p", "2", "-c", "retention.ms=5000")
    assert created.out == f"created topic {topic}\n"
    (listed,) = json.loads(ottla("topics", "list", topic, "--json").out)
    assert listed == {
        "name": topic,
        "partitions": 2,
        "replication_factor": 1,
        "records": 0,
        "internal": False,
    }
    (described,) = json.loads(ottla("topics", "describe", topic, "--json").out)
    assert described["configs"] == {"retention.ms": "5000"}
    assert [entry["end_offset"] for entry in described["partitions"]] == [0, 0]
    table = ottla("topics", "describe", topic).out
    assert "retention.ms = 5000" in table
    assert "in sync" in table
    assert ottla("topics", "grow", topic, "3").out == f"topic {topic} has 3 partitions now\n"
    assert topic in ottla("topics", "list").out
    assert ottla("topics", "delete", topic, "--yes").out == f"deleted topic {topic}\n"


def test_errors_name_cause_and_remedy(ottla: Tool, five: str) -> None:
    exists = ottla("topics", "create", five)
    assert "already exists" in exists.err
    assert "ottla topics describe" in exists.err
    assert exists.code == 1
    assert ottla("topics", "create", five, "--if-not-exists").code == 0
    missing = ottla("topics", "describe", "no-such")
    assert "topic no-such does not exist (UNKNOWN_TOPIC_OR_PARTITION)" in missing.err
    nobody = ottla("topics", "list", "-b", "localhost:1")
    assert "cannot reach localhost:1: Connection refused" in nobody.err
    assert "ottla serve" in nobody.err
    wrong = ottla("topics", "create", "x", "-c", "nonsense")
    assert "expected NAME=VALUE" in wrong.err
    assert ottla("topics", "nonsense").code == 2


def test_delete_asks_first(ottla: Tool, five: str) -> None:
    assert ottla("topics", "delete", five, stdin="n\n").code != 0
    assert ottla("topics", "list", five, "--json").out != "[]\n"


def test_produce_and_consume(ottla: Tool, topic: str) -> None:
    ottla("topics", "create", topic, "-p", "1")
    sent = ottla("produce", topic, "one", "two", "--key", "k", "-H", "h=1", "--json")
    assert [json.loads(line)["offset"] for line in sent.lines] == [0, 1]
    ottla("produce", topic, "--key-separator", ":", stdin="a:1\nb:2:3\n")
    ottla("produce", topic, "--from-json", stdin='{"key": "j", "value": {"n": 1}}\n')
    ran = ottla("consume", topic, "--from", "beginning", "--exit", "--json")
    found = [json.loads(line) for line in ran.lines]
    assert [(entry["key"], entry["value"]) for entry in found] == [
        ("k", "one"),
        ("k", "two"),
        ("a", "1"),
        ("b", "2:3"),
        ("j", '{"n": 1}'),
    ]
    assert found[0]["headers"] == {"h": "1"}


def test_produce_says_which_line_is_wrong(ottla: Tool, five: str) -> None:
    bad = ottla("produce", five, "--from-json", stdin="{\n")
    assert "line 1 is not JSON" in bad.err
    assert bad.code == 1
    assert "line 1 has no ':'" in ottla("produce", five, "--key-separator", ":", stdin="x\n").err


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("beginning", ["0", "1", "2", "3", "4"]),
        ("3", ["3", "4"]),
        ("-2", ["3", "4"]),
        ("end", []),
        ("1970-01-01T00:00:01.002", ["2", "3", "4"]),
        ("2090-01-01", []),
    ],
)
def test_consume_begins_at_the_requested_place(
    ottla: Tool, five: str, start: str, expected: list[str]
) -> None:
    ran = ottla("consume", five, f"--from={start}", "--exit")
    assert ran.lines == expected
    assert ran.code == 0


def test_consume_some_as_a_group(ottla: Tool, five: str, group: str) -> None:
    words = ("consume", five, "--group", group, "--from", "beginning", "-n", "2")
    assert ottla(*words).lines == ["0", "1"]
    assert ottla(*words).lines == ["2", "3"]
    assert ottla("consume", five, "-p", "0", "--from", "4", "-n", "1").lines == ["4"]
    assert "has no partition 7" in ottla("consume", five, "-p", "7").err


def test_a_groups_progress(ottla: Tool, bootstrap: str, five: str, group: str) -> None:
    with Consumer(bootstrap, five, group=group, auto_offset_reset="earliest") as consumer:
        consumer.take(2)
        consumer.commit()
        described = json.loads(ottla("groups", "describe", group, "--json").out)
        assert described["state"] == "Stable"
        assert described["offsets"][0]["lag"] == 4 or described["offsets"][0]["lag"] == 3
        refused = ottla("groups", "reset", group, "--to", "earliest")
        assert "has 1 member " in refused.err
    assert "Empty" in ottla("groups", "describe", group).out
    listed = json.loads(ottla("groups", "list", "--json").out)
    expected = {"name": group, "state": "Empty", "type": "Classic", "protocol": "consumer"}
    assert expected in listed
    missing = ottla("groups", "describe", "no-such")
    assert "group no-such does not exist" in missing.err


@pytest.mark.parametrize(
    ("to", "offset"),
    [
        ("earliest", 0),
        ("latest", 5),
        ("3", 3),
        ("-1", 1),
        ("+2", 4),
        ("1970-01-01T00:00:01.004", 4),
    ],
)
def test_reset(
    ottla: Tool, admin: Admin, bootstrap: str, five: str, group: str, to: str, offset: int
) -> None:
    with Consumer(bootstrap, five, group=group, auto_offset_reset="earliest") as consumer:
        consumer.take(2)
    planned = ottla("groups", "reset", group, f"--to={to}", "--dry-run")
    assert "nothing was changed" in planned.out
    done = ottla("groups", "reset", group, f"--to={to}", "--json")
    assert json.loads(done.out) == [{"topic": five, "partition": 0, "offset": offset}]
    assert [entry.offset for entry in admin.groups.offsets(group).values()] == [offset]
    assert ottla("groups", "delete", group, "-y").out == f"deleted group {group}\n"


def test_configs(ottla: Tool, five: str) -> None:
    resource = f"topic:{five}"
    assert "retention.ms = 5000" in ottla("configs", "set", resource, "retention.ms=5000").out
    changed = json.loads(ottla("configs", "show", resource, "--changed", "--json").out)
    shown = {entry["name"]: entry for entry in changed}["retention.ms"]
    assert (shown["value"], shown["source"]) == ("5000", "DYNAMIC_TOPIC_CONFIG")
    assert "dynamic topic" in ottla("configs", "show", resource, "retention.ms", "--explain").out
    assert "604800000" in ottla("configs", "unset", resource, "retention.ms").out
    assert "has no config nonsense" in ottla("configs", "show", resource, "nonsense").err
    assert "expected topic:NAME" in ottla("configs", "show", "orders").err
    assert "nonsense" in ottla("configs", "set", resource, "nonsense=1").err
    assert "topic:no-such: UNKNOWN_TOPIC" in ottla("configs", "show", "topic:no-such").err
    assert "kafka-configs" in ottla("configs", "set", "client:x", "producer_byte_rate=1").err


def test_bench(ottla: Tool, admin: Admin) -> None:
    ran = ottla("bench", "--records", "300", "--size", "20", "--json")
    produced, consumed = json.loads(ran.out)
    assert (produced["what"], produced["records"]) == ("produce", 300)
    assert produced["p50_ms"] <= produced["p999_ms"]
    assert (consumed["what"], consumed["records"]) == ("consume", 300)
    assert not [name for name in admin.topics.names() if name.startswith("ottla-bench-")]
    assert "records/s" in ottla("bench", "--records", "50", "--acks", "1", "--rate", "1000").out


def test_dump_log(ottla: Tool, tmp_path: Path) -> None:
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(build_batch([Record(0, 1000, b"k", b"v", [])]))
    assert "baseOffset: 0 lastOffset: 0 count: 1" in ottla("dump-log", str(tmp_path)).out
    assert ottla("dump-log", str(log), "--contents").lines[-1].endswith("key: k payload: v")
    found = json.loads(ottla("dump-log", str(log), "--records", "--json").out)
    assert (found["base_offset"], found["valid"]) == (0, True)
    assert found["records"][0]["value"] == "v"
    assert "no such file" in ottla("dump-log", str(tmp_path / "none")).err
    assert "not the folder of a partition" in ottla("dump-log", str(tmp_path.parent)).err


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


def test_every_command_has_an_example_in_its_help_that_it_can_parse() -> None:
    add_verbs([])
    root = typer.main.get_command(app)
    for path, command in commands(root, ()):
        if path == ("serve",):  # argparse prints its help
            continue
        examples = re.findall(rf"ottla {' '.join(path)}[^\n|\[#>&]*", command.help or "")
        assert examples, f"ottla {' '.join(path)} --help has no example"
        for example in examples:
            command_line = re.split(r"\s{3,}", example)[0]  # some have a description after the name
            words = shlex.split(command_line)[1 + len(path) :]
            if not hasattr(command, "commands"):
                command.make_context("ottla", words, resilient_parsing=False).close()


def test_help_names_what_an_option_takes(ottla: Tool) -> None:
    """Not its Python type, as typer does for lists without a metavar."""
    add_verbs([])
    for path, command in commands(typer.main.get_command(app), ()):
        if path != ("serve",) and any(parameter.multiple for parameter in options(command)):
            assert "list[" not in ottla(*path, "--help").out


def options(command: Any) -> list[Any]:
    return [parameter for parameter in command.params if hasattr(parameter, "multiple")]

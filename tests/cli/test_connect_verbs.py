"""`ottla connect`, and the start scripts' ways to fail."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "connect/rest"))
from workers import Stage, until, worker

from ottla.cli.kafka import connect_distributed, connect_mirror_maker, connect_standalone
from ottla.cli.main import main
from ottla.connect.run.connect_worker import ConnectWorker

Tool = Callable[..., Any]
LINES = {"connector.class": "Lines", "topic": "lines", "tasks.max": 2}


@pytest.fixture
def there(bootstrap: str) -> Iterator[ConnectWorker]:
    with worker(bootstrap, Stage(), alone=True) as found:
        yield found


@pytest.fixture
def ottla(run: Tool, there: ConnectWorker, monkeypatch: pytest.MonkeyPatch) -> Tool:
    monkeypatch.setenv("OTTLA_CONNECT_URL", there.url)
    return lambda *words, stdin="": run(main, "connect", *words, stdin=stdin)


@pytest.fixture(autouse=True)
def logging_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker changes the logging setup; restores it for the other tests of this process."""
    monkeypatch.setattr("ottla.connect.worker_process.log_to_terminal", lambda verbose: None)


def test_the_status_of_a_connector_that_no_worker_has_begun_with(
    ottla: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("herders.FakeConnector.tell", lambda self: None)
    file = tmp_path / "lines.json"
    file.write_text(json.dumps({"name": "lines", "config": LINES}))
    assert ottla("create", str(file)).code == 0
    ran = ottla("status", "lines")
    assert (ran.code, ran.err) == (0, "")
    assert "lines (source)" in ran.out
    assert "UNASSIGNED" in ran.out
    found = json.loads(ottla("status", "lines", "--json").out)
    assert found["connector"]["state"] == "UNASSIGNED"
    missing = ottla("status", "lnes")
    assert (missing.code, missing.err) == (
        1,
        "error There is no connector lnes; did you mean lines?\n",
    )


def test_a_misspelled_setting_is_named(
    ottla: Tool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "lines.json"
    misspelled = {**LINES, "taks.max": 2, "value.converter.schemas.enable": "false", "colour": "x"}
    file.write_text(json.dumps({"name": "lines", "config": misspelled}))
    hint = "taks.max is not a known setting; did you mean tasks.max?"
    assert ottla("validate", str(file)).out == f"The config is valid.\nwarning {hint}\n"
    made = ottla("create", str(file)).out
    assert made == f"lines is a source connector now.\nwarning {hint}\n"
    assert f"Config of connector lines: {hint}" in caplog.messages, "for users of REST and SQL"
    assert ottla("config", "lines", "taks.max=", "btch.size=9").out.endswith(
        "warning btch.size is not a known setting; did you mean batch.size?\n"
    )


def test_a_connectors_life(ottla: Tool, tmp_path: Path) -> None:
    file = tmp_path / "lines.json"
    file.write_text(json.dumps({"name": "lines", "config": LINES, "initial_state": "PAUSED"}))
    assert ottla("list").out == "There are no connectors yet.\n"
    assert "lines is a source connector now." in ottla("create", str(file)).out
    assert "lines" in ottla("list").out, "also before a worker has reported its status"
    again = ottla("create", str(file))
    assert (again.code, again.err) == (1, "error Connector lines already exists\n")
    until(lambda: "PAUSED" in ottla("status", "lines").out)
    ottla("resume", "lines")
    until(lambda: "2 RUNNING" in ottla("list").out)
    listed = ottla("list").out
    assert all(word in listed for word in ("lines", "source", "Lines"))
    assert set(json.loads(ottla("list", "--json").out)) == {"lines"}
    status = ottla("status", "lines").out
    assert all(word in status for word in ("connector", "task 0", "task 1"))

    changed = ottla("config", "lines", "tasks.max=1", "file=/tmp/x", "--json").out
    assert json.loads(changed)["tasks.max"] == "1"
    assert "file" not in json.loads(ottla("config", "lines", "file=", "--json").out)
    assert "tasks.max" in ottla("config", "lines").out
    until(lambda: ottla("topics", "lines").out == "lines\n")
    assert ottla("topics", "lines", "--reset").out == ""
    for words in (["--task", "0"], ["--tasks", "--failed"], []):
        assert ottla("restart", "lines", *words).out == "lines is restarting.\n"
    ottla("pause", "lines")
    assert "must be in the STOPPED state" in ottla("offsets", "lines", "--reset").err
    assert ottla("stop", "lines").code == 0
    file.write_text(json.dumps({"name": "lines", **LINES, "tasks.max": "7"}))
    assert ottla("create", str(file), "--replace").code == 0
    assert json.loads(ottla("config", "lines", "--json").out)["tasks.max"] == "7"
    assert ottla("delete", "lines").out == "lines was deleted.\n"
    assert ottla("delete", "lines").err == "error Connector lines not found\n"


def test_plugins_and_validation(ottla: Tool, tmp_path: Path) -> None:
    assert "Lines" in ottla("plugins").out
    assert "JsonConverter" in ottla("plugins", "--all").out
    file = tmp_path / "lines.properties"
    file.write_text("name=lines\nconnector.class=Lines\n")
    wrong = ottla("validate", str(file))
    assert wrong.code == 1
    assert 'Missing required configuration "topic"' in wrong.out
    file.write_text("name=lines\nconnector.class=Lines\ntopic=t\n")
    assert ottla("validate", str(file)).out == "The config is valid.\n"
    file.write_text("name=lines\nconnector.class=Lynes\n")
    unknown = ottla("validate", str(file)).err
    assert "which name matches Lynes, available connectors are: " in unknown
    assert "Did you mean Lines?" in unknown
    assert "PluginDesc" not in unknown
    file.write_text("connector.class=Lines\n")
    assert "a connector has a `name`" in ottla("create", str(file)).err


def test_an_absent_worker_is_reported_with_a_remedy(run: Tool) -> None:
    gone = run(main, "connect", "list", "--url", "http://127.0.0.1:1")
    assert gone.code == 1
    assert "Can't reach a Connect worker at http://127.0.0.1:1" in gone.err
    assert "`ottla connect worker` starts one" in gone.err
    odd = run(main, "connect", "list", "--url", "ftp://x")
    assert "expected something like http://localhost:8083" in odd.err


@pytest.mark.parametrize("tool", [connect_distributed, connect_standalone, connect_mirror_maker])
def test_start_scripts_print_their_usage(run: Tool, tool: Any, tmp_path: Path) -> None:
    assert run(tool.main).err.startswith(f"USAGE: {tool.NAME}")
    missing = run(tool.main, str(tmp_path / "none.properties"))
    assert (missing.code, "Unable to read file" in missing.err) == (1, True)


def test_bad_properties_end_a_worker_with_a_sentence(run: Tool, tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text("listeners=https://:8083\n")
    result = run(connect_distributed.main, str(file))
    assert (result.code, "https needs a certificate" in result.err) == (1, True)
    extra = run(connect_distributed.main, str(file), "connector.properties")
    assert "connectors come over REST" in extra.err
    file.write_text("listeners=http://127.0.0.1:0\n")
    result = run(connect_standalone.main, str(file))
    assert 'Missing required configuration "offset.storage.file.filename"' in result.err
    file.write_text("clusters = a\n")
    result = run(connect_mirror_maker.main, str(file))
    assert result.err == "a.bootstrap.servers: where is that cluster?\n"

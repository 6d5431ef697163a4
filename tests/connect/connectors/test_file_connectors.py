"""Files: lines into a topic, records into lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from drives import Context, Sink, Source, sink_record

from ottla.connect import standard_streams
from ottla.connect.api import ExactlyOnceSupport
from ottla.connect.connectors.file_sink import FileStreamSinkConnector
from ottla.connect.connectors.file_source import (
    FileStreamSourceConnector,
    lines_of,
)
from ottla.connect.data import INT32_SCHEMA, STRING_SCHEMA, struct_schema
from ottla.connect.errors import ConfigException, ConnectException


def source(path: Path, offsets: dict[str, Any] | None = None, **config: str) -> Source:
    props = {"file": str(path), "topic": "lines", **config}
    return Source(FileStreamSourceConnector(), props, offsets)


def test_appended_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    with source(path) as reader:
        assert not reader.poll(), "the file is not there yet"
        path.write_bytes("erste\nzweite ß\r\n\nhalf".encode())
        found = reader.take(3)
        assert [record.value for record in found] == ["erste", "zweite ß", ""]
        assert [record.source_offset["position"] for record in found] == [6, 17, 18]
        assert not reader.poll(), "half a line waits for its end"
        with path.open("ab") as more:
            more.write(b" a line\n")
        assert [record.value for record in reader.take(1)] == ["half a line"]
    assert found[0].source_partition == {"filename": str(path)}
    assert found[0].topic == "lines"


def test_a_new_task_resumes_after_the_last_line(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("".join(f"line {n}\n" for n in range(5000)))
    offsets: dict[str, Any] = {}
    found: list[str] = []
    while len(found) < 5000:
        with source(path, offsets, **{"batch.size": "777"}) as reader:
            polled = reader.poll()
            assert len(polled) <= 777
            found += [record.value for record in polled]
    assert found == [f"line {n}" for n in range(5000)]


def test_ends_of_lines() -> None:
    assert lines_of(b"a\rb\r\nc\nd", 9) == ([(b"a", 2), (b"b", 3), (b"c", 2)], 7)
    assert lines_of(b"a\r", 9) == ([], 0), "a LF may follow"
    assert lines_of(b"\r\r\n\n", 9) == ([(b"", 1), (b"", 2), (b"", 1)], 4)
    assert lines_of(b"a\nb\n", 1) == ([(b"a", 2)], 2)


def test_offsets_that_are_set_are_checked(tmp_path: Path) -> None:
    connector, props = FileStreamSourceConnector(), {"file": "x", "topic": "t"}
    assert connector.alter_offsets(props, [({"filename": "x"}, {"position": 3}), ({"y": 1}, None)])
    for offset in ({"position": -1}, {"position": "3"}, {}):
        with pytest.raises(ConnectException, match="position"):
            connector.alter_offsets(props, [({"filename": "x"}, offset)])
    with pytest.raises(ConnectException, match="filename"):
        connector.alter_offsets(props, [({"file": "x"}, {"position": 3})])
    with pytest.raises(ConnectException, match="stdin is used"):
        connector.alter_offsets({"topic": "t"}, [({"filename": "x"}, {"position": 3})])
    assert connector.exactly_once_support(props) is ExactlyOnceSupport.SUPPORTED
    assert connector.exactly_once_support({}) is ExactlyOnceSupport.UNSUPPORTED
    with pytest.raises(ConfigException, match="topic"):
        connector.start({"file": "x"})
    assert Context({}).offset({}) is None


def test_records_become_lines_as_java_would_write_them(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    schema = struct_schema({"id": INT32_SCHEMA, "item": STRING_SCHEMA})
    with Sink(FileStreamSinkConnector(), {"file": str(path)}) as writer:
        writer.put(sink_record(STRING_SCHEMA, "ß\tx"), sink_record(None, None))
        writer.put(sink_record(None, True), sink_record(schema, {"id": 1, "item": "a"}))
        assert writer.commit() == {("orders", 0): 1}
        assert path.read_text() == "ß\tx\nnull\ntrue\nStruct{id=1,item=a}\n"
    with Sink(FileStreamSinkConnector(), {"file": str(path)}) as writer:
        writer.put(sink_record(None, 5))
    assert path.read_text().endswith("}\n5\n"), "a file is appended to"
    with pytest.raises(ConnectException, match="Couldn't open"):
        Sink(FileStreamSinkConnector(), {"file": str(tmp_path / "no" / "folder")})


def test_without_a_file_the_standard_streams_are_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there, here = os.pipe()
    monkeypatch.setattr(standard_streams, "INPUT", there)
    with Source(FileStreamSourceConnector(), {"topic": "lines"}) as reader:
        assert not reader.poll(), "no input yet"
        os.write(here, b"one\ntwo\nthr")
        found = reader.take(2)
        assert [record.value for record in found] == ["one", "two"]
        assert found[0].source_partition == {"filename": None}
        assert found[0].source_offset == {"position": None}
        os.write(here, b"ee\n")
        assert [record.value for record in reader.take(1)] == ["three"]
        os.close(here)
        assert not reader.poll(), "the end of the file is not an error"
    os.close(there)
    with Sink(FileStreamSinkConnector(), {}) as writer:
        writer.put(sink_record(STRING_SCHEMA, "shown"))
        writer.commit()
        assert capsys.readouterr().out == "shown\n"


TASK = """
import os, sys
from ottla.connect import standard_streams
standard_streams.attach_standard_streams(int(sys.argv[1]))
line = os.read(standard_streams.standard_input(), 100).decode()
print(line, file=standard_streams.standard_output(), flush=True)
"""


def test_a_task_has_the_streams_of_its_worker_or_none() -> None:
    worker = subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(b"typed")
        worker.stdin.flush()
        words = [sys.executable, "-c", TASK, str(worker.pid)]
        subprocess.run(words, check=True, timeout=240, stdin=subprocess.DEVNULL)
        assert worker.stdout.readline() == b"typed\n"
        far = subprocess.run([*words[:-1], "0"], capture_output=True, text=True, timeout=240)
        assert "of the worker, which a task on another machine" in far.stderr
    finally:
        worker.kill()
        worker.communicate()

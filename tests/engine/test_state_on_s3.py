"""State on an object store: a real S3 server, and hosts that are killed."""

from __future__ import annotations

import os
import pickle
import signal
import tempfile
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import IO

import host_child
import pytest
from killed_hosts import exit_code, in_files

from ottla.engine.failures import StreamsError
from ottla.engine.state_folder import LocalFolder, ObjectFolder, joined, state_folder
from ottla.engine.task_files import TaskFiles, delete_obsolete_files
from ottla.engine.task_host import TaskHost
from s3_server import s3_uri


@pytest.fixture
def place(s3: str) -> str:
    return s3_uri(s3, os.urandom(4).hex())


def test_a_place_is_a_path_or_a_uri(place: str) -> None:
    assert isinstance(state_folder("/some/where"), LocalFolder)
    assert str(state_folder("file:///some/where")) == "/some/where"
    assert joined("/some/where", "0", "tasks") == "/some/where/0/tasks"
    assert joined("s3://bucket/a?scheme=http", "0") == "s3://bucket/a/0?scheme=http"
    folder = state_folder(joined(place, "0"))
    assert isinstance(folder, ObjectFolder)
    assert str(folder).startswith("s3://state/")


def test_an_object_exists_whole_or_not_at_all(place: str) -> None:
    folder = state_folder(place)
    assert folder.files() == []
    assert folder.names() == []

    def fail(file: IO[bytes]) -> None:
        file.write(b"half")
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        folder.put("one", fail)
    assert folder.names() == []
    made = folder.put("one", lambda file: pickle.dump([1], file))
    (found,) = folder.files()
    assert (found.name, found.size) == (made.name, made.size)
    with folder.open("one") as file:
        assert pickle.load(file) == [1]
    folder.delete("one")
    folder.delete("one")
    assert folder.files() == []


def test_an_upload_that_fails_leaves_no_object(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state file is on this machine then, and its disk fails in the middle."""
    read, reads = tempfile.SpooledTemporaryFile.read, count()

    def failing(file: tempfile.SpooledTemporaryFile[bytes], size: int = -1) -> bytes:
        if next(reads) == 2:
            raise OSError("Input/output error")
        return read(file, size)

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "read", failing)
    monkeypatch.setattr("ottla.engine.state_folder.COPY_BYTES", 4)
    folder = state_folder(place)
    with pytest.raises(OSError, match="Input/output error"):
        folder.put("one", lambda file: file.write(b"0123456789ab") and None)
    assert folder.names() == []


class SlowServer(BaseHTTPRequestHandler):
    """An object store that is longer silent than Amazon's client waits by default (3 s)."""

    def do_HEAD(self) -> None:
        self._answer(b"")

    def do_GET(self) -> None:
        time.sleep(3.5)
        self._answer(b"data")

    def _answer(self, data: bytes) -> None:
        self.send_response(206 if data else 200)
        self.send_header("Content-Length", "4")
        self.send_header("Content-Range", "bytes 0-3/4")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def test_a_silent_object_store_is_waited_for(s3: str) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), SlowServer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            folder = state_folder(s3_uri(f"127.0.0.1:{server.server_port}", "slow"))
            with folder.open("object") as file:
                assert file.read() == b"data"
        finally:
            server.shutdown()
            thread.join()


def test_state_of_other_queries_is_removed(place: str) -> None:
    folder, ids = state_folder(place), f"-{'a' * 16}-{'b' * 16}"
    for path in ("old/0/0-9", "new/0/0-3", "new/0/4-6"):
        *parents, name = path.split("/")
        within = folder
        for parent in parents:
            within = within.child(parent)
        within.put(name + ids, lambda file: pickle.dump(1, file))
    delete_obsolete_files(folder, "new", 5)
    assert folder.names() == ["new"]
    assert [file.name for file in folder.child("new").child("0").files()] == ["0-3" + ids]


@pytest.mark.parametrize("on_disk", [False, True], ids=["in memory", "on disk"])
def test_tasks_move_between_hosts_that_share_only_the_store(
    tmp_path: Path, place: str, on_disk: bool
) -> None:
    """A host that comes back reads the newer files."""
    plans = [host_child.plan_on_disk(tmp_path / name) for name in ("one", "other")]
    hosts = [TaskHost(plan if on_disk else host_child.counted()) for plan in plans]
    for batch in range(6):
        done = host_child.run_batch(hosts[batch // 2 % 2], place, batch)
        wanted = host_child.counts_behind(batch)
        assert done == {word: wanted[word] for word in host_child.words_of(batch)}
    assert all(file.first > 0 for file in hosts[0].files_read), "only newer files"
    for host in hosts:
        host.close()


def test_a_truncated_object_is_reported(place: str) -> None:
    host = TaskHost(host_child.counted())
    host_child.run_batch(host, place, 0)
    folder = state_folder(joined(place, "0"))
    (name,) = folder.names()
    with folder.open(name) as file:
        whole = file.read()
    folder.put(name, lambda file: file.write(whole[:-9]) and None)
    with pytest.raises(StreamsError, match="is incomplete"):
        host_child.run_batch(TaskHost(host_child.counted()), place, 1)


@pytest.mark.parametrize(("point", "nth"), [("batch", 3), ("upload", 6), ("object", 2)])
def test_a_killed_host_leaves_the_state_in_its_objects(
    tmp_path: Path, processes: ForkServerContext, place: str, point: str, nth: int
) -> None:
    done, where = tmp_path / "done", (place, tmp_path / "local")
    assert exit_code(processes, *where, range(6), done, point, nth) == -signal.SIGKILL
    first = int(done.read_text()) + 1 if done.exists() else 0
    assert exit_code(processes, *where, range(first, 8), done, "nowhere") == 0
    counted: Counter[str] = in_files(TaskFiles(state_folder(joined(place, "0"))), 7)
    assert counted == host_child.counts_behind(7)

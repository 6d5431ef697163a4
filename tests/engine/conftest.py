"""Processes for tests of hosts that are killed, and an S3 server."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

import pytest

from s3_server import CREDENTIALS, s3_server


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with a bucket; this process and its children may write there."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        with s3_server(tmp_path_factory.mktemp("s3")) as address:
            yield address


@pytest.fixture(scope="session")
def processes(s3: str) -> ForkServerContext:
    """Forked from a process that has not imported RocksDB, whose threads do not survive a fork."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["host_child"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # where it finds that module
        forkserver.ensure_running()
    return context

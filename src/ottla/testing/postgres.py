"""A real PostgreSQL server for the time of a test.

    with PostgresServer() as server:
        use(server.url)                # jdbc:postgresql://127.0.0.1:43210/postgres?user=postgres

It is started from Debian's `postgresql` package (or from where POSTGRES_HOME says), on a free port
of the loopback, with data in a directory that goes with it; nothing of the system's own server is
touched. PostgreSQL refuses to run as root: root starts it as the user `postgres`, or `nobody`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ottla.testing.ports import HOST, reserve_port

DEBIAN_HOMES: Final = Path("/usr/lib/postgresql")
USERS: Final = ("postgres", "nobody")
SUPERUSER: Final = "postgres"
START_S_MAX: Final = 120.0
STOP_S_MAX: Final = 60.0
OPEN_TO_ALL: Final = "/tmp"  # a temporary folder of root's may be closed to the user that serves
LOOK_EVERY_S: Final = 0.02
LOG_BYTES_SHOWN: Final = 8000

# Quick, small, and with nothing to keep through a power cut; a kill loses nothing.
SETTINGS: Final = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "40",
    "timezone": "UTC",
}


class PostgresMissing(RuntimeError):
    """There is nothing to start."""


def programs() -> Path:
    """The folder with `initdb` and `postgres`."""
    home = os.environ.get("POSTGRES_HOME")
    if home is not None:
        return Path(home) / "bin"
    found = sorted(DEBIAN_HOMES.glob("*/bin/postgres"), key=lambda path: _number(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("postgres")
    if on_path is not None:
        return Path(on_path).resolve().parent
    raise PostgresMissing(
        "PostgreSQL is not installed: apt-get install postgresql,"
        " or set POSTGRES_HOME to where it is"
    )


class PostgresServer:
    """`start`, and any number of `stop`, `kill` and `start` again, with the same data and port."""

    def __init__(self) -> None:
        self._directory: Path | None = None
        self._reserved: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        if self._reserved is None:
            self._reserved = reserve_port()
        port: int = self._reserved.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """For `connection.url`."""
        return f"jdbc:postgresql://{HOST}:{self.port}/postgres?user={SUPERUSER}"

    @property
    def conninfo(self) -> str:
        """For libpq, and so for psycopg and psql."""
        return f"host={HOST} port={self.port} dbname=postgres user={SUPERUSER}"

    def start(self) -> Self:
        """It serves when this returns."""
        if self._process is not None:
            raise RuntimeError("the PostgreSQL server runs already")
        home = programs()
        if self._directory is None:
            self._make_data(home)
        assert self._directory is not None
        settings = {**SETTINGS, "port": str(self.port)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with open(self._directory / "server.log", "ab") as output:
            self._process = subprocess.Popen(
                [str(home / "postgres"), "-D", str(self._directory / "data"), *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._directory,
                start_new_session=True,
                user=_user(),
                group=_group(),
            )
        self._wait_until_it_serves(home)
        return self

    def stop(self) -> None:
        """Clients are cut off; the data is whole."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """At once: what was under way is recovered at the next start."""
        self._end(signal.SIGQUIT)

    def close(self) -> None:
        self.kill()
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def log(self) -> str:
        """The end of what it has said."""
        if self._directory is None:
            return ""
        text = (self._directory / "server.log").read_bytes()
        return text[-LOG_BYTES_SHOWN:].decode(errors="replace")

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _make_data(self, home: Path) -> None:
        user = _user()
        folder = None if user is None else OPEN_TO_ALL
        made_at = tempfile.mkdtemp(prefix="ottla-postgres-", dir=folder)
        self._directory = directory = Path(made_at)
        if user is not None:
            shutil.chown(directory, user)
        made = subprocess.run(
            [
                *(str(home / "initdb"), "-D", str(directory / "data"), "-U", SUPERUSER),
                *("--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_S_MAX,
            cwd=directory,
            user=user,
            group=_group(),
        )
        if made.returncode:
            raise RuntimeError(f"initdb failed:\n{made.stdout}{made.stderr}")

    def _wait_until_it_serves(self, home: Path) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_S_MAX
        question = [str(home / "pg_isready"), "-q", "-h", HOST, "-p", str(self.port)]
        while subprocess.run(question, timeout=START_S_MAX).returncode:
            if self._process.poll() is not None:
                self._process = None
                raise RuntimeError(f"PostgreSQL did not start; its log says\n{self.log()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not serve; its log says\n{self.log()}")
            time.sleep(LOOK_EVERY_S)

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_S_MAX)
        self._process = None


def _user() -> str | None:
    """None: as who we are."""
    if os.geteuid() != 0:
        return None
    for name in USERS:
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise PostgresMissing(f"PostgreSQL does not run as root, and no user is named {USERS}")


def _group() -> int | None:
    user = _user()
    return None if user is None else pwd.getpwnam(user).pw_gid


def _number(version: str) -> float:
    try:
        return float(version)
    except ValueError:
        return 0.0

"""A real PostgreSQL server for the time of a test.

    with PostgresServer() as server:
        use(server.url)                # jdbc:postgresql://127.0.0.1:43210/postgres?user=postgres

It is started from Debian's `postgresql` package (or from POSTGRES_HOME), on a free port of the
loopback interface, with its data in a temporary directory, and touches nothing of the system's own
server. PostgreSQL refuses to run as root: root starts it as the user `postgres`, or `nobody`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from ottla.testing.ports import HOST
from ottla.testing.server_process import ServerProcess

DEBIAN_HOMES: Final = Path("/usr/lib/postgresql")
USERS: Final = ("postgres", "nobody")
SUPERUSER: Final = "postgres"
START_S_MAX: Final = 120.0
OPEN_TO_ALL: Final = "/tmp"  # the server's user may have no access to root's temporary directory

# Fast and small; nothing needs to survive a power cut, but a kill loses nothing.
SETTINGS: Final = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "40",
    "timezone": "UTC",
}


class PostgresNotFound(RuntimeError):
    """PostgreSQL is not installed."""


def programs() -> Path:
    """The directory with `initdb` and `postgres`."""
    home = os.environ.get("POSTGRES_HOME")
    if home is not None:
        return Path(home) / "bin"
    found = sorted(DEBIAN_HOMES.glob("*/bin/postgres"), key=lambda path: _number(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("postgres")
    if on_path is not None:
        return Path(on_path).resolve().parent
    raise PostgresNotFound(
        "PostgreSQL is not installed: apt-get install postgresql,"
        " or set POSTGRES_HOME to where it is"
    )


class PostgresServer(ServerProcess):
    name = "PostgreSQL"
    start_s_max = START_S_MAX
    stopped_by = signal.SIGINT  # disconnects clients and shuts down cleanly
    killed_by = signal.SIGQUIT  # the next start runs recovery

    def __init__(self) -> None:
        super().__init__(apart=True)
        self.user, self.group = _user(), _group()
        self._directory: Path | None = None

    @property
    def url(self) -> str:
        """For `connection.url`."""
        return f"jdbc:postgresql://{HOST}:{self.port}/postgres?user={SUPERUSER}"

    @property
    def conninfo(self) -> str:
        """A conninfo string for libpq, and so for psycopg and psql."""
        return f"host={HOST} port={self.port} dbname=postgres user={SUPERUSER}"

    @property
    def directory(self) -> Path:
        if self._directory is None:
            folder = None if self.user is None else OPEN_TO_ALL
            self._directory = Path(tempfile.mkdtemp(prefix="ottla-postgres-", dir=folder))
        return self._directory

    def command(self) -> list[str]:
        home, data = programs(), self.directory / "data"
        if not data.exists():
            self._make_data(home, data)
        settings = {**SETTINGS, "port": str(self.port)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(home / "postgres"), "-D", str(data), *options]

    def serves(self) -> bool:
        question = [str(programs() / "pg_isready"), "-q", "-h", HOST, "-p", str(self.port)]
        return subprocess.run(question, timeout=START_S_MAX).returncode == 0

    def close(self) -> None:
        super().close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def _make_data(self, home: Path, data: Path) -> None:
        if self.user is not None:
            shutil.chown(self.directory, self.user)
        initdb = subprocess.run(
            [
                *(str(home / "initdb"), "-D", str(data), "-U", SUPERUSER),
                *("--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_S_MAX,
            cwd=self.directory,
            user=self.user,
            group=self.group,
        )
        if initdb.returncode:
            raise RuntimeError(f"initdb failed:\n{initdb.stdout}{initdb.stderr}")


def _user() -> str | None:
    """None: the current user."""
    if os.geteuid() != 0:
        return None
    for name in USERS:
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise PostgresNotFound(f"PostgreSQL does not run as root, and no user is named {USERS}")


def _group() -> int | None:
    user = _user()
    return None if user is None else pwd.getpwnam(user).pw_gid


def _number(version: str) -> float:
    try:
        return float(version)
    except ValueError:
        return 0.0

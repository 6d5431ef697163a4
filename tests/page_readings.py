"""Which commands of the pages a test runs, and which ones none can run, with the reason.

`test_page_commands.py` reads most of these, `compat/test_kerberos.py` the one that needs a KDC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from page_reader import DOCS, Command, Selection, parts_of

README = Selection("../README.md", ("Five lines",))
SHARE_GROUPS = Selection(
    "share-groups.md",
    (
        "Workers in Python",
        "Dead letters",
        "Redrive",
        "Delayed delivery",
        "Listing and changing groups",
    ),
)
QUOTAS = Selection("quotas.md", ("Quotas", "Configs of groups", "Clients' metrics"))
REGISTRY = Selection("registry.md", ("Schema registry",), ("pip", "ottla registry"))
VALIDATED_TOPIC = Selection("registry.md", ("The broker validates schema ids",))
REGISTRY_USERS = Selection("registry.md", ("Users and TLS", "Rights per subject"))
REGISTRY_LOGIN = Selection("registry.md", ("The registry's login at the brokers",))
CLOSED_CLUSTER = Selection("security.md", ("From nothing to a closed cluster",), ("pip",))
USERS_AND_ACLS = Selection("security.md", ("Users and SASL", "Delegation tokens", "ACLs"))
FILES_OF_CLOSED_BROKERS = Selection(
    CLOSED_CLUSTER.page,
    CLOSED_CLUSTER.headings,
    (
        *("pip", "ottla users", "ottla serve", "ottla topics", "ottla acls", "ottla consume"),
        *("export", "echo", "kafka-"),
    ),
)
THREE_BROKERS = Selection("security.md", ("Three brokers",))
TLS = Selection("security.md", ("TLS in one minute", "New certificates without a restart"))
KERBEROS = Selection("security.md", ("Kerberos (GSSAPI)",))
METRICS = Selection("metrics.md", ("Metrics",))
COMPACTED_TOPICS = Selection("configuration.md", ("Compacted topics",))
CLI = Selection(
    "cli.md",
    ("ottla", "Kafka's own tools"),
    ("ottla up", "ottla serve", "ottla cluster up"),
)
CLUSTER = Selection("cluster.md", ("Try it",), ("apt-get",))
OPERATIONS = Selection(
    "operations.md",
    (
        "Before anything else",
        "Rolling restart",
        "After an upgrade: features",
        "Adding brokers",
    ),
)
CONNECT_LOGINS = Selection("connect.md", ("Logins and rights",))
SQL_LOGINS = Selection("sql-server.md", ("Security",))
HEADLESS = Selection("sql-server.md", ("Headless",))
CONNECT = Selection("connect.md", ("Connect",), ("pip",))
SQL_SERVER = Selection("sql-server.md", ("The SQL server", "REST"), ("pip", "ottla serve"))
SQL = Selection(
    "sql.md",
    (
        "SQL over topics",
        "First steps",
        "Statements",
        "Windows",
        "Joins",
        "Pull and push",
        "Formats with a schema registry",
        "The shell",
    ),
    ("pip", "ottla serve", "ottla sql --master", "SELECT * FROM sums"),
)
SQL_CONNECTORS = Selection("sql.md", ("Connectors",), ("ottla connect worker",))
STREAMS = Selection(
    "streams.md",
    ("A job", "Starting over"),
    ("ottla streams run sales.py --master", "ottla streams run sales.py --remote"),
)
COMPLETION = Selection("deployment.md", ("Shell completion",), ("ottla --install-completion",))
BROKER_IN_A_TEST = Selection("benchmarks.md", ("A broker in a test",))

READINGS: Final = {
    name: value for name, value in dict(vars()).items() if isinstance(value, Selection)
}
ROOT: Final = DOCS.parent
PAGES: Final = (
    "../README.md",
    "../CONTRIBUTING.md",
    "../SECURITY.md",
    *sorted(
        path.relative_to(DOCS).as_posix()
        for path in DOCS.rglob("*.md")
        if path.parent.name != "decisions"
    ),
)
NOT_RUN: Final = {
    "installs packages": (r".*: (pip|apt-get) ", r".*students.md: (git|python3) "),
    "no container engine here": (r".*: (docker|kubectl) ",),
    "a Spark cluster or an object store": (r".*(spark|sc|s3)://", r".*: export AWS_"),
    "CI's own steps, hours of tests and of measurements": (
        r".*: (SUITE_SOURCES=\S+ )?make ",
        r".*: (OTTLA_\w+=\S+ |\.venv/bin/)?pytest .*tests",
        r".*: python tests/(chaos|delivery|simulation)/",
        r".*: \S*python -m benchmarks\.",
    ),
    "runs in test_quickstarts.py, or the same there": (
        r"testing.md: pytest test_orders.py",
        r"quickstart/data.md: ottla (topics create|streams run)",
        r"deployment.md: ottla doctor",
    ),
    "runs in sql/test_sql_testing_doc.py": (r"sql-testing.md: ottla sql test",),
    "runs in cli/test_up_verb.py": (r"(cli|deployment).md: ottla up",),
    "runs in other pages": (
        r"cli.md: ottla (serve|cluster up)",
        r"../README.md: ottla streams run",
        r"sql.md: ottla (serve|connect worker)",
        r"sql-server.md: ottla serve",
    ),
    "machines of its own": (
        r"cluster.md: ottla serve server.properties",
        r"registry.md: ottla registry (-b|schema-registry)",
        r"streams.md: ottla streams run counts.py -b kafka:",
        r"client.md: kafka-topics",
    ),
    "runs Java: tests/compat": (r"streams.md: kafka-(configs|streams-groups) ",),
    "needs a second cluster, or a database": (
        r"connect.md: (cat mm2.properties|connect-mirror-maker)",
        r"connectors.md: python -c",
    ),
    "one more Spark for a server's other ways to start": (
        r"sql-server.md: (cat connect.properties|ottla sql-server --override)",
        r"streams.md: ottla streams run sales.py --state-dir",
    ),
    "a state that lasts for a moment": (r"sql.md: SELECT \* FROM sums",),
    "changes the start files of the user's shell": (r"deployment.md: ottla --install",),
}
"""Patterns of `page: command`."""


def unread(page: str) -> list[str]:
    """The commands that no test runs, and that have no reason."""
    return [
        f"{page}:{part.line}: {part.text}"
        for heading, part in _commands(page)
        if not _is_read(page, heading, part) and not _reasons(page, part)
    ]


def useless_reasons() -> list[str]:
    needed = {
        pattern
        for page in PAGES
        for heading, part in _commands(page)
        if not _is_read(page, heading, part)
        for pattern in _reasons(page, part)
    }
    return [
        pattern for patterns in NOT_RUN.values() for pattern in patterns if pattern not in needed
    ]


def _commands(page: str) -> Iterator[tuple[str, Command]]:
    for heading, part in parts_of(page):
        if isinstance(part, Command):
            yield heading, part


def _is_read(page: str, heading: str, part: Command) -> bool:
    if part.in_fence and page.startswith("quickstart/"):
        return True  # test_quickstarts.py reads these whole
    return any(found.has(heading, part) for found in READINGS.values() if found.page == page)


def _reasons(page: str, part: Command) -> list[str]:
    text = f"{page}: {part.text}"
    return [
        pattern
        for patterns in NOT_RUN.values()
        for pattern in patterns
        if re.match(pattern, text, re.DOTALL)
    ]

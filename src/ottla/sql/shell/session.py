"""The session: executes commands of the shell here, and statements on the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from ottla.rows.errors import SqlError
from ottla.sql.shell.client import KsqlRestClient, KsqlServerUnreachable
from ottla.sql.shell.entities import print_entity
from ottla.sql.shell.help import HELP
from ottla.sql.shell.screen import OutputFormat, Screen
from ottla.sql.syntax.tokens import scan, split_statements

if TYPE_CHECKING:
    from ottla.sql.syntax.statements import SetProperty, Statement

SCRIPTS_DEEP_MAX: Final = 10
LOCAL: Final = ("SET", "UNSET", "DEFINE", "UNDEFINE", "RUN")
"""Statements that are executed here, not on the server."""


class ExitShell(Exception):
    """The user wants to leave the shell."""


class ShellSession:
    """Keeps properties and variables, which are sent with each statement: servers are stateless.

    `connect` is called when the server is first needed, because an embedded one may be starting.
    """

    def __init__(
        self,
        connect: Callable[[], KsqlRestClient],
        screen: Screen,
        *,
        properties: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.connect = connect
        self.screen = screen
        self.properties = dict(properties or {})
        self.variables = dict(variables or {})
        self._scripts = 0
        self._spool: IO[str] | None = None
        self._warm: set[str] = set()
        """Servers whose Spark is known to run."""
        self.changed = True
        """Names may have changed since they were loaded."""

    def run(self, text: str) -> bool:
        """Execute all statements of a text up to the first error; False if there was one."""
        whole, rest = split_statements(text)
        for statement in whole:
            if not self.one(statement):
                return False
        return self.one(rest) if rest.strip() else True

    def one(self, text: str) -> bool:
        """Execute one statement or command, and print its errors."""
        text = text.strip()
        try:
            if not self._word(text):
                self._statement(text)
        except (SqlError, KsqlServerUnreachable, OSError) as error:
            self.screen.error(error)
            return False
        return True

    def close(self) -> None:
        self._spool_to("OFF")

    # -- statements

    def _statement(self, text: str) -> None:
        first = _first_word(text)
        if first in LOCAL or not text.endswith(";"):
            from ottla.sql.syntax import parse

            for statement in parse(text, variables=self.variables):
                self._local(statement)
            return
        client = self._connected()
        if first in ("SELECT", "PRINT", "WITH"):
            self._query(client, text)
            return
        with self.screen.waiting("working"):
            entities = client.execute(text, self.properties, self.variables)
        for entity in entities:
            print_entity(self.screen, entity)
        self.changed = self.changed or first not in ("SHOW", "LIST", "DESCRIBE", "EXPLAIN")

    def _local(self, statement: Statement) -> None:
        from ottla.sql.syntax.statements import (
            Define,
            RunScript,
            SetProperty,
            Undefine,
            UnsetProperty,
        )

        match statement:
            case SetProperty():
                self._check(statement)
                self.properties[statement.name] = statement.value
                self.screen.note(f"{statement.name} = {statement.value}")
            case UnsetProperty():
                if self.properties.pop(statement.name, None) is None:
                    self.screen.note(f"{statement.name} is not set in this session")
            case Define():
                self._forget(statement.name)
                self.variables[statement.name] = statement.value
            case Undefine():
                if not self._forget(statement.name):
                    raise SqlError(f"variable {statement.name} is not defined")
            case RunScript():
                self.script(Path(statement.path).expanduser())

    def _check(self, statement: SetProperty) -> None:
        """Check a property now, because otherwise the server would reject all later statements."""
        try:
            self._connected().check_property(statement.name, statement.value)
        except KsqlServerUnreachable:
            return  # the next statement will report it

    def _connected(self) -> KsqlRestClient:
        with self.screen.waiting("the server is starting"):
            return self.connect()

    def _forget(self, name: str) -> bool:
        """Remove a variable; case does not matter."""
        known = [variable for variable in self.variables if variable.upper() == name.upper()]
        for variable in known:
            del self.variables[variable]
        return bool(known)

    def script(self, path: Path) -> None:
        if self._scripts >= SCRIPTS_DEEP_MAX:
            raise SqlError(f"scripts are nested more than {SCRIPTS_DEEP_MAX} levels deep")
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise SqlError(f"Can't read {path}: {error.strerror or error}") from None
        self._scripts += 1
        try:
            if not self.run(text):
                raise SqlError(f"{path}: stopped at the statement above")
        finally:
            self._scripts -= 1

    def _query(self, client: KsqlRestClient, text: str) -> None:
        """Print the rows of a query; Ctrl-C ends the query, not the shell."""
        endless = "EMIT" in (token.value for token in scan(text))
        try:
            with self.screen.waiting(self._what_for(client)):
                rows = client.query(text, self.properties, self.variables)
            with rows:
                if not rows.names:
                    for line in rows:
                        self.screen.say_plain(str(line))
                    return
                if endless and self.screen.is_terminal:
                    self.screen.note("Ctrl-C ends the query.")
                count = self.screen.rows(rows.names, rows.types, rows, endless=endless)
            self.screen.note(f"{count} row{'' if count == 1 else 's'}")
            if not count and not endless and self.screen.output is OutputFormat.TABULAR:
                with suppress(SqlError, KsqlServerUnreachable):  # the query itself succeeded
                    self._why_empty(client, text)
        except KeyboardInterrupt:
            if not self.screen.is_terminal:
                raise
            self.screen.note("\nquery ended")

    def _why_empty(self, client: KsqlRestClient, text: str) -> None:
        """Explain an empty table: perhaps its query is starting, or has failed."""
        words = {token.value for token in scan(text)}
        for entity in client.execute("SHOW QUERIES;", {}, {}):
            for query in entity.get("queries") or ():
                state = query.get("state") or ""
                for sink in words.intersection(query.get("sinks") or ()):
                    who = f"{query['id']}, which writes {sink},"
                    if state == "RUNNING":
                        self._why_nothing_yet(client, query["id"], who)
                    elif state:
                        self.screen.note(f"{who} is {state}.")

    def _why_nothing_yet(self, client: KsqlRestClient, query_id: str, who: str) -> None:
        """Explain missing rows: perhaps the query is in its first batch, or can't read its
        input."""
        for entity in client.execute(f"EXPLAIN {query_id};", {}, {}):
            query = entity.get("queryDescription") or {}
            progress = query.get("progress") or {}
            if progress and not progress.get("batchMs"):
                self.screen.note(
                    f"{who} is running, but has finished no batch yet: try again soon."
                )
            elif progress.get("lag"):
                self.screen.note(f"{who} still has {progress['lag']:,} records to read.")
            for words in query.get("unreadable") or ():
                self.screen.note(str(words))

    def _what_for(self, client: KsqlRestClient) -> str:
        """What the user is waiting for; the first query may take seconds."""
        if self.screen.is_terminal and client.url not in self._warm:
            if client.spark_state() == "starting":
                return "the query waits for Spark to start"
            self._warm.add(client.url)
        return "the query is starting"

    # -- commands of the shell

    def _word(self, text: str) -> bool:
        """Execute a command such as `help`; False if it is none."""
        words = text.rstrip(";").split()
        name = words[0].lower() if words else ""
        if not words:
            return True
        if name in ("exit", "quit") and len(words) == 1:
            raise ExitShell
        action = self._words().get(name)
        if action is None or len(words) > 2:
            return False
        action(*words[1:])
        return True

    def _words(self) -> dict[str, Callable[..., None]]:
        return {
            "help": self._help,
            "clear": lambda *_: self.screen.clear(),
            "output": self._output,
            "server": self._server,
            "version": self._version,
            "spool": self._spool_to,
        }

    def _help(self, topic: str = "") -> None:
        self.screen.say(HELP.get(topic.lower()) or HELP[""])

    def _output(self, name: str = "") -> None:
        if name:
            if name.upper() not in list(OutputFormat):
                raise SqlError(f"unknown output: {name}", remedy="TABULAR or JSON.")
            self.screen.output = OutputFormat(name.upper())
        self.screen.say(f"output is {self.screen.output}")

    def _server(self, url: str = "") -> None:
        if url:
            new = KsqlRestClient(url)
            new.info()
            self.connect = lambda: new
            self.changed = True
        self.screen.say(self.connect().url)

    def _version(self) -> None:
        client = self.connect()
        info: dict[str, Any] = client.info()
        self.screen.say(f"server {info.get('version', '?')} at {client.url}")

    def _spool_to(self, path: str = "") -> None:
        if self._spool is not None:
            self.screen.spool_to(None)
            self._spool.close()
            self._spool = None
        if path and path.upper() != "OFF":
            self._spool = Path(path.strip("'")).expanduser().open("w", encoding="utf-8")
            self.screen.spool_to(self._spool)
            self.screen.say(f"everything goes into {path} as well")


def _first_word(text: str) -> str:
    for token in scan(text):
        return token.value
    return ""

"""What is typed, carried out: words of the shell here, statements at the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from ottla.rows.errors import SqlError
from ottla.sql.shell.client import Client, Unreachable
from ottla.sql.shell.describe import print_entity
from ottla.sql.shell.help import HELP
from ottla.sql.shell.screen import Output, Screen
from ottla.sql.syntax.scanner import scan, split

if TYPE_CHECKING:
    from ottla.sql.syntax.statements import SetProperty, Statement

SCRIPTS_DEEP_MAX: Final = 10
LOCAL: Final = ("SET", "UNSET", "DEFINE", "UNDEFINE", "RUN")
"""Statements that are carried out here, and never sent."""


class Leave(Exception):
    """The user wants to go."""


class Session:
    """Properties and variables live here and go with each statement: the server keeps neither.

    `connect` is called when the server is first needed: its own may be still on its way.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
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
        """Servers whose Spark is there: it is asked of once."""
        self.changed = True
        """Streams, tables or topics may be others than before."""

    def run(self, text: str) -> bool:
        """Everything in a text, to its end or the first mistake; whether all went well."""
        whole, rest = split(text)
        for statement in whole:
            if not self.one(statement):
                return False
        return self.one(rest) if rest.strip() else True

    def one(self, text: str) -> bool:
        """One statement, or one word of the shell; errors are shown here."""
        text = text.strip()
        try:
            if not self._word(text):
                self._statement(text)
        except (SqlError, Unreachable, OSError) as error:
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

            for each in parse(text, variables=self.variables):
                self._local(each)
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
                    self.screen.note(f"{statement.name} was not set here")
            case Define():
                self._forget(statement.name)
                self.variables[statement.name] = statement.value
            case Undefine():
                if not self._forget(statement.name):
                    raise SqlError(f"there is no variable {statement.name}")
            case RunScript():
                self.script(Path(statement.path).expanduser())

    def _check(self, wish: SetProperty) -> None:
        """What the server does not take would be refused with every statement from here on."""
        try:
            self._connected().check_property(wish.name, wish.value)
        except Unreachable:
            return  # then it is said with the next statement

    def _connected(self) -> Client:
        with self.screen.waiting("the server is starting"):
            return self.connect()

    def _forget(self, name: str) -> bool:
        """Names of variables have no case."""
        known = [each for each in self.variables if each.upper() == name.upper()]
        for each in known:
            del self.variables[each]
        return bool(known)

    def script(self, path: Path) -> None:
        if self._scripts >= SCRIPTS_DEEP_MAX:
            raise SqlError(f"scripts run scripts more than {SCRIPTS_DEEP_MAX} deep")
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

    def _query(self, client: Client, text: str) -> None:
        """Rows until there are no more, or Ctrl-C: it ends the query, and not the shell."""
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
            if not count and not endless and self.screen.output is Output.TABULAR:
                with suppress(SqlError, Unreachable):  # the query itself was answered
                    self._why_empty(client, text)
        except KeyboardInterrupt:
            if not self.screen.is_terminal:
                raise
            self.screen.note("\nquery ended")

    def _why_empty(self, client: Client, text: str) -> None:
        """A table is empty, too, while the query that writes it starts, or has failed."""
        words = {token.value for token in scan(text)}
        for entity in client.execute("SHOW QUERIES;", {}, {}):
            for each in entity.get("queries") or ():
                state = each.get("state") or ""
                for sink in words.intersection(each.get("sinks") or ()):
                    who = f"{each['id']}, which writes {sink},"
                    if state == "RUNNING":
                        self._why_nothing_yet(client, each["id"], who)
                    elif state:
                        self.screen.note(f"{who} is {state}.")

    def _why_nothing_yet(self, client: Client, query_id: str, who: str) -> None:
        """A query that runs may be in its first batch, or find nothing that it can read."""
        for entity in client.execute(f"EXPLAIN {query_id};", {}, {}):
            query = entity.get("queryDescription") or {}
            progress = query.get("progress") or {}
            if progress and not progress.get("batchMs"):
                self.screen.note(f"{who} runs, and has finished no batch yet: ask again soon.")
            elif progress.get("lag"):
                self.screen.note(f"{who} has {progress['lag']:,} records still to read.")
            for words in query.get("unreadable") or ():
                self.screen.note(str(words))

    def _what_for(self, client: Client) -> str:
        """Somebody waits here for some seconds at the first query, and wonders why."""
        if self.screen.is_terminal and client.url not in self._warm:
            if client.spark_state() == "starting":
                return "Spark is starting, the query waits for it"
            self._warm.add(client.url)
        return "the query is starting"

    # -- words of the shell

    def _word(self, text: str) -> bool:
        """Carry out what is no SQL, such as `help`; False if it is none of these words."""
        words = text.rstrip(";").split()
        name = words[0].lower() if words else ""
        if not words:
            return True
        if name in ("exit", "quit") and len(words) == 1:
            raise Leave
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
            if name.upper() not in list(Output):
                raise SqlError(f"unknown output: {name}", remedy="TABULAR or JSON.")
            self.screen.output = Output(name.upper())
        self.screen.say(f"output is {self.screen.output}")

    def _server(self, url: str = "") -> None:
        if url:
            new = Client(url)
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

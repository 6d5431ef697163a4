"""The engine: statements carried out, questions answered, queries opened.

    engine = Engine(Settings({"bootstrap.servers": "localhost:9092"}))
    engine.start()
    engine.execute("CREATE STREAM ...;", {"auto.offset.reset": "earliest"})

Any thread may call it. Spark is started behind it: what needs no Spark is answered at once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ottla.client.schema_registry import SchemaRegistry
from ottla.rows.errors import SqlCode, SqlError
from ottla.rows.formats.registered import registry_of
from ottla.sql.engine import answers
from ottla.sql.engine.advice import advised
from ottla.sql.engine.answer import Answer
from ottla.sql.engine.answers import Asked, QueryFacts
from ottla.sql.engine.asserting import assert_schema, assert_topic
from ottla.sql.engine.changes import (
    CHANGING,
    Around,
    Change,
    State,
    change,
    command_id,
    stops_queries,
)
from ottla.sql.engine.cluster import Cluster
from ottla.sql.engine.commands import Command, CommandTopic
from ottla.sql.engine.connectors import CONNECTOR_SUBJECTS, Connectors
from ottla.sql.engine.entities import Entity, current_status, entity, warning
from ottla.sql.engine.follower import Follower, Outcome, Status
from ottla.sql.engine.homes import Home, Homes
from ottla.sql.engine.lease import Lease
from ottla.sql.engine.refusals import not_in_a_file, refused
from ottla.sql.engine.runs import Runs
from ottla.sql.engine.schemas import Schemas
from ottla.sql.functions import BUILTIN, MODULES, load_functions
from ottla.sql.plan.planner import plan_query
from ottla.sql.settings import (
    ASSERT_SCHEMA_TIMEOUT_MS,
    STATE_MOVED,
    Settings,
    check_property,
    checked,
    plain_name,
)
from ottla.sql.syntax import parse
from ottla.sql.syntax.masking import masked
from ottla.sql.syntax.statements import (
    AssertSchema,
    AssertTopic,
    CreateAsSelect,
    CreateConnector,
    CreateSource,
    Define,
    Describe,
    DescribeConnector,
    DescribeFunction,
    DescribeSources,
    DropConnector,
    DropSource,
    Explain,
    InsertSelect,
    InsertValues,
    Print,
    Select,
    SetProperty,
    Show,
    Statement,
    Terminate,
    Undefine,
    UnsetProperty,
)

if TYPE_CHECKING:
    from ottla.sql.run.workers import Workers

WRITE_TRIES_MAX: Final = 20
START_S_MAX: Final = 60.0
TROUBLE_S: Final = 5.0
LOOK_S: Final = 0.1
STOP_S_MAX: Final = 60.0
"""What ends a query is answered when the query has ended: nothing of it is written afterwards."""

log = logging.getLogger("ottla.sql")


@dataclass(slots=True)
class Session:
    """What a request came with, and what its own SET and DEFINE have made of it."""

    overrides: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)


class Engine:
    """`workers` is what needs Spark or holds tables; an engine without it does all the rest.

    `headless`: statements come from a file at each start. They are in no command topic, and the
    numbers of queries are the places of their statements in the file. `cluster` and `registry` are
    those of the settings, unless they are given.
    """

    def __init__(
        self,
        settings: Settings,
        workers: Workers | None = None,
        *,
        host: str = "localhost",
        headless: bool = False,
        cluster: Cluster | None = None,
        registry: SchemaRegistry | None = None,
    ) -> None:
        load_functions(settings.get(MODULES), BUILTIN)
        self.headless = headless
        self.settings = settings
        self.host = host
        self.workers = workers
        self.cluster = cluster or Cluster(settings.bootstrap_servers, settings.client)
        self._connectors = Connectors(settings)
        self._schemas = Schemas(registry or registry_of(settings.registry))
        self._topic = CommandTopic(settings.bootstrap_servers, settings.service_id, settings.client)
        self.follower = Follower(
            None if headless else self._topic, self.cluster.partition_count, self._changed
        )
        self._homes = Homes(
            settings.bootstrap_servers,
            topic=self._topic.name,
            group=f"_ottla-sql-{settings.service_id}home",
            moved=settings.get(STATE_MOVED).lower() == "true",
            settings=settings.client,
        )
        self.runs = Runs(workers.queries_if_ready, self._claim) if workers else None
        self._lease = Lease(
            settings.bootstrap_servers,
            topic=self._topic.name,
            group=f"_ottla-sql-{settings.service_id}runner",
            changed=self._lease_changed,
            prepare=self._topic.make,
            settings=settings.client,
        )
        self._writing = threading.Lock()
        self._open: dict[str, tuple[Answer, Select | Print]] = {}

    def start(self) -> None:
        """At once: commands are read and Spark is started behind it."""
        if self.workers is not None and self.runs is not None:
            self.workers.warm_up(self.runs.look_again)
            self.runs.start()
        self.follower.start()

    def close(self) -> None:
        """Queries are stopped at a border of their batches; the next start goes on there."""
        for each in list(self._open):
            self.close_query(each)
        if self.workers is not None:
            self.workers.give_up_waiting()
        self._lease.close()
        self.follower.close()
        if self.runs is not None:
            self.runs.close()
        if self.workers is not None:
            self.workers.close()
        self._topic.close()
        self._schemas.close()
        self.cluster.close()

    def _changed(self, state: State) -> None:
        if self.runs is not None:
            self.runs.want(state)
            if not self.headless:  # only now it is known what should run
                self.ask_to_run()

    def ask_to_run(self) -> None:
        """From here on this server is one of those that may be given the queries to run."""
        if not self._lease.started:
            self._lease.start()

    def _lease_changed(self, held: bool) -> None:
        if self.runs is not None:
            self.runs.hold(held)

    def _claim(self, wanted: bool) -> str:
        if not wanted:
            self._homes.release()
            return ""
        assert self.workers is not None
        trouble = self.workers.trouble_of_state_dir()
        return trouble or self._homes.claim(Home.of(self.workers.state_dir))

    # What is there

    @property
    def state(self) -> State:
        return self.follower.state

    def wait_ready(self, timeout_s: float = START_S_MAX) -> None:
        """Until the commands of former days are read. Without a broker nobody waits so long."""
        deadline, patience = time.monotonic() + timeout_s, time.monotonic() + TROUBLE_S
        while not self.follower.replayed.wait(LOOK_S):
            now = time.monotonic()
            if now < (patience if self.follower.trouble else deadline):
                continue
            raise SqlError(
                "The server is still reading its command topic."
                + (f" {self.follower.trouble}" if self.follower.trouble else ""),
                remedy="Is the broker running, and are bootstrap.servers right? Try again soon.",
                code=SqlCode.NOT_READY,
            )

    def query_facts(self) -> dict[str, QueryFacts]:
        """How each persistent query does, here."""
        state, runs = self.state, self.runs
        found: dict[str, QueryFacts] = {}
        running = self.workers.states() if self.workers else {}
        for id_, query in state.catalog.queries.items():
            known = running.get(id_)
            cause = runs.causes.get(id_, "") if runs else ""
            if cause:
                found[id_] = QueryFacts("FAILED", cause)
            elif known is not None and known.state == "FAILED":
                found[id_] = replace(known, cause=advised(id_, known.cause))
            elif known is not None:
                found[id_] = known
            elif query.paused:
                found[id_] = QueryFacts("PAUSED")
            else:
                standby = runs is not None and self._lease.asked and not runs.held
                waits = QueryFacts("STANDBY", self._lease.cause) if standby else None
                found[id_] = waits or QueryFacts("STARTING", self._spark_cause())
        for id_, failure in state.failures.items():
            found[id_] = QueryFacts("FAILED", failure.cause)
        return found

    def _spark_cause(self) -> str:
        """What a query waits for that is not started yet, if it is Spark."""
        state = self.workers.spark_state() if self.workers else ""
        return "Spark is starting" if state == "starting" else ""

    # Statements

    def execute(
        self,
        text: str,
        properties: Mapping[str, object] | None = None,
        variables: Mapping[str, str] | None = None,
        *,
        after: int = -1,
        check: Callable[[Sequence[Statement]], None] = lambda statements: None,
    ) -> list[Entity]:
        """Carry out statements, one after the other; what each of them gives.

        Nothing is done if any of them can be seen to be wrong beforehand. `after` is the number of
        a command that has to be carried out here first. A failure has `entities`: what was done.
        `check` refuses statements before anything is done.
        """
        self.wait_ready()
        if after >= 0 and self.follower.wait(after, self.settings.command_timeout_s) is None:
            raise SqlError(
                f"Timed out while waiting for command {after} to be carried out.",
                remedy="Try again.",
                code=SqlCode.NOT_READY,
            )
        session = Session(checked(properties or {}), dict(variables or {}))
        statements = self._parsed(text, session)
        check(statements)
        self._rehearse(statements, session)
        done: list[Entity] = []
        for each in statements:
            try:
                found = self._execute(each, session)
            except SqlError as error:
                raise _with_place(error, each, done) from error
            if found is not None:
                done.append(found)
        return done

    def execute_file(self, text: str) -> list[Entity]:
        """The statements of a headless server: those that define something, and SET."""
        for each in self._parsed(text, Session()):
            if not isinstance(each, (*CHANGING, SetProperty, UnsetProperty, Define, Undefine)):
                raise _with_place(not_in_a_file(each), each, [])
        return self.execute(text)

    def _parsed(self, text: str, session: Session) -> list[Statement]:
        try:
            found = parse(text, types=self.state.catalog.types, variables=session.variables)
        except SqlError as error:
            error.statement = error.statement or text
            raise
        if not found:
            raise SqlError(
                "There is no statement in this.",
                remedy="SHOW STREAMS; for example.",
                statement=text,
            )
        return [masked(each) for each in found]

    def _rehearse(self, statements: Sequence[Statement], session: Session) -> None:
        """Every change, in thought: several statements are right together, or none is done."""
        if len(statements) < 2 and not isinstance(statements[0], CreateConnector):
            return
        state, overrides = self.state, dict(session.overrides)
        made: dict[str, int] = {}
        connectors = self._connectors.rehearsal()

        def partition_count(topic: str) -> int | None:
            return made.get(topic) or self.cluster.partition_count(topic)

        for each in statements:
            try:
                if isinstance(each, SetProperty):
                    overrides[check_property(each.name, each.value)] = each.value
                elif isinstance(each, UnsetProperty):
                    overrides.pop(plain_name(each.name), None)
                elif isinstance(each, (CreateConnector, DropConnector)):
                    connectors.check(each)
                elif isinstance(each, CHANGING):
                    around = Around(
                        state.position + 1, self._properties(overrides), partition_count
                    )
                    planned = change(self._inferred(each, around), state, around)
                    state = planned.state
                    made |= {wish.name: wish.partitions for wish in planned.topics}
            except SqlError as error:
                raise _with_place(error, each, []) from error

    def _properties(self, overrides: Mapping[str, str]) -> dict[str, str]:
        return {**self.settings.session, **overrides}

    def _execute(self, statement: Statement, session: Session) -> Entity | None:
        if isinstance(statement, Terminate) and (statement.query_id or "") in self._open:
            query_id = statement.query_id or ""
            ended = self.close_query(query_id)
            return entity("terminate_query", statement.text, queryId=query_id, wasTerminated=ended)
        if isinstance(statement, CHANGING):
            return self._write(statement, session)
        match statement:
            case InsertValues():
                self._insert_values(statement)
                return None
            case SetProperty():
                name = check_property(statement.name, statement.value)
                session.overrides[name] = statement.value
                return None
            case UnsetProperty():
                session.overrides.pop(plain_name(statement.name), None)
                return None
            case Define():
                session.variables[statement.name] = statement.value
                return None
            case Undefine():
                session.variables.pop(statement.name, None)
                return None
            case AssertTopic():
                return assert_topic(statement, self.cluster)
            case AssertSchema():
                default_s = int(self.settings.get(ASSERT_SCHEMA_TIMEOUT_MS)) / 1000
                return assert_schema(statement, self._schemas, default_s)
            case CreateConnector():
                return self._connectors.create(statement)
            case DropConnector():
                return self._connectors.drop(statement)
        return self._answer(statement, session)

    def _answer(self, statement: Statement, session: Session) -> Entity:
        asked = Asked(
            self.state,
            self.cluster,
            self.settings,
            self.query_facts(),
            self._pushed(),
            session.overrides,
            session.variables,
            self.host,
            {} if self.workers is None else self.workers.unreadable_words(),
        )
        match statement:
            case Show() if statement.subject in CONNECTOR_SUBJECTS:
                return self._connectors.show(statement)
            case Show():
                return answers.show(statement, asked)
            case DescribeConnector():
                return self._connectors.describe(statement, asked)
            case Describe():
                return answers.describe(statement, asked)
            case DescribeSources():
                return answers.describe_sources(statement, asked)
            case DescribeFunction():
                return answers.describe_function(statement)
            case Explain():
                return self._explain(statement, asked, session)
        raise refused(statement)

    def _explain(self, statement: Explain, asked: Asked, session: Session) -> Entity:
        if statement.query_id:
            return answers.explain_running(statement.query_id, statement.text, asked)
        inner = statement.statement
        if not isinstance(inner, (Select, CreateAsSelect, InsertSelect)):
            raise SqlError(
                "The provided statement does not run a ksql query",
                remedy="EXPLAIN takes the id of a query, or a statement with a SELECT.",
            )
        if isinstance(inner, Select):
            plan = plan_query(inner.query, asked.state.catalog, self._properties(session.overrides))
            return answers.explain_plan(inner.text, plan)
        around = Around(
            asked.state.position + 1,
            self._properties(session.overrides),
            self.cluster.partition_count,
        )
        changed = change(inner, asked.state, around)
        return answers.explain_plan(inner.text, changed.state.plans[changed.query_id])

    # Changes: checked, written, carried out

    def _write(self, written: Statement, session: Session) -> Entity:
        statement = written
        with self._writing:
            for _ in range(WRITE_TRIES_MAX):
                state = self.state
                around = Around(
                    state.position + 1,
                    self._properties(session.overrides),
                    self.cluster.partition_count,
                )
                statement = self._inferred(written, around)
                planned = change(statement, state, around)
                if planned.idle:
                    return _idle(statement, planned, state.position)
                self._check_schemas(statement, planned)
                for wish in planned.topics:
                    self.cluster.make(wish)
                self._register_schemas(statement, planned)
                command = Command(
                    command_id(statement),
                    statement.text,
                    session.overrides,
                    self.settings.session,
                    state.basis,
                )
                if self.headless:
                    number = self.follower.take(command)
                else:
                    number = self._topic.write(command)
                status = self.follower.wait(number, self.settings.command_timeout_s)
                if status is None or status.outcome is not Outcome.VOID:
                    break
            else:
                raise SqlError(
                    "Other servers wrote statements at the same time, again and again.",
                    remedy="Try again.",
                    code=SqlCode.SERVER_ERROR,
                )
        if self.runs is not None and stops_queries(state, planned.state):
            self.runs.settle(STOP_S_MAX)
        if isinstance(statement, DropSource) and self.workers is not None:
            self.workers.forget(state.catalog, statement.name)
        if planned.topic_to_delete:
            self.cluster.delete(planned.topic_to_delete)
            assert isinstance(statement, DropSource)
            self._schemas.delete(state.catalog.sources[statement.name])
        return _status_entity(statement, number, status)

    def _inferred(self, statement: Statement, around: Around) -> Statement:
        """With the columns that a schema registry has for it: the command has them, too."""
        if isinstance(statement, CreateSource):
            return self._schemas.inferred(statement, around.properties)
        return statement

    def _check_schemas(self, statement: Statement, planned: Change) -> None:
        if isinstance(statement, CreateAsSelect):
            self._schemas.check(planned.state.catalog.sources[statement.name])

    def _register_schemas(self, statement: Statement, planned: Change) -> None:
        """A query writes by its own schema; a stream over a topic that has one leaves it alone."""
        if isinstance(statement, (CreateSource, CreateAsSelect)):
            source = planned.state.catalog.sources[statement.name]
            self._schemas.register(source, even_if_there=isinstance(statement, CreateAsSelect))

    # Rows

    def _insert_values(self, statement: InsertValues) -> None:
        target = self.state.catalog.find(statement.target)
        self._needs_workers().insert_values(statement, target)

    def insert(self, target: str, row: Mapping[str, Any]) -> None:
        """One row of /inserts-stream, its columns by name."""
        self._needs_workers().insert_row(self.state.catalog.find(target), row)

    def query(
        self,
        text: str,
        properties: Mapping[str, object] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Answer:
        """Open a SELECT, push or pull, or a PRINT. Whoever opens it closes it."""
        self.wait_ready()
        session = Session(checked(properties or {}), dict(variables or {}))
        statements = self._parsed(text, session)
        *before, last = statements
        if not isinstance(last, (Select, Print)) or not all(
            isinstance(each, (SetProperty, UnsetProperty, Define, Undefine)) for each in before
        ):
            raise SqlError(
                f"Statement type `{type(last).__name__}` not supported for this resource",
                remedy="Queries and PRINT are sent here, one at a time; all else to /ksql.",
                statement=last.text,
                code=SqlCode.BAD_STATEMENT,
            )
        for each in before:
            self._execute(each, session)
        try:
            answer = self._opened(last, self._properties(session.overrides))
        except SqlError as error:
            raise _with_place(error, last, []) from error
        self._open[answer.query_id] = answer, last
        return answer

    def _opened(self, statement: Select | Print, properties: Mapping[str, str]) -> Answer:
        workers = self._needs_workers()
        if isinstance(statement, Print):
            return workers.print_topic(statement)
        if statement.query.emit is None:
            return workers.pull(statement, self.state.catalog, properties)
        return workers.push(statement, self.state.catalog, properties)

    def close_query(self, query_id: str) -> bool:
        """Whoever reads its rows finds that there are no more. False: it is not open here."""
        found = self._open.pop(query_id, None)
        if found is None:
            return False
        answer, _ = found
        answer.close()
        return True

    def _pushed(self) -> dict[str, str]:
        """The push queries that are open, and their texts."""
        return {
            id_: statement.text
            for id_, (answer, statement) in list(self._open.items())
            if answer.is_push and isinstance(statement, Select)
        }

    @property
    def open_queries(self) -> int:
        return len(self._open)

    def _needs_workers(self) -> Workers:
        if self.workers is None:
            raise SqlError(
                "This server runs no queries.", remedy="Ask one that does.", code=SqlCode.NOT_READY
            )
        return self.workers


def _idle(statement: Statement, planned: Change, position: int) -> Entity:
    if isinstance(statement, (CreateSource, CreateAsSelect)):
        return warning(statement.text, planned.message)
    return current_status(
        statement.text,
        command_id=command_id(statement),
        status=Outcome.SUCCESS,
        message=planned.message,
        number=position,
    )


def _status_entity(statement: Statement, number: int, status: Status | None) -> Entity:
    return current_status(
        statement.text,
        command_id=command_id(statement),
        status=status.outcome if status else Outcome.QUEUED,
        message=status.message if status else "Statement written to command topic",
        query_id=status.query_id if status else "",
        number=number,
    )


def _with_place(error: SqlError, statement: Statement, done: Iterable[Entity]) -> SqlError:
    """The statement it is about; `entities` are what came of those before it."""
    error.statement = error.statement or statement.text
    error.entities = list(done)
    return error

"""The engine: executes statements, describes what exists, opens queries.

    engine = Engine(Settings({"bootstrap.servers": "localhost:9092"}))
    engine.start()
    engine.execute("CREATE STREAM ...;", {"auto.offset.reset": "earliest"})

Any thread may call it. Spark starts in the background; what does not need Spark works at once.
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
from ottla.rows.formats.registry_format import registry_of
from ottla.sql.engine import descriptions
from ottla.sql.engine.advice import advised
from ottla.sql.engine.asserts import assert_schema, assert_topic
from ottla.sql.engine.command_runner import CommandRunner, CommandStatus, CommandStatusCode
from ottla.sql.engine.command_topic import Command, CommandTopic
from ottla.sql.engine.connectors import CONNECTOR_SUBJECTS, Connectors
from ottla.sql.engine.descriptions import DescriptionContext, QueryDescription
from ottla.sql.engine.entities import Entity, current_status, entity, warning
from ottla.sql.engine.lease import Lease
from ottla.sql.engine.query_reconciler import QueryReconciler
from ottla.sql.engine.query_result import QueryResult
from ottla.sql.engine.refusals import refusal, refusal_in_file
from ottla.sql.engine.schemas import Schemas
from ottla.sql.engine.state_changes import (
    CHANGING,
    EngineState,
    PlanningContext,
    StateChange,
    command_id,
    plan_change,
    stops_queries,
)
from ottla.sql.engine.state_ownership import StateDirectory, StateOwnership
from ottla.sql.engine.topic_client import TopicClient
from ottla.sql.functions import BUILTIN, MODULES, load_user_functions
from ottla.sql.ksql_config import (
    ASSERT_SCHEMA_TIMEOUT_MS,
    STATE_MOVED,
    KsqlConfig,
    check_property,
    checked,
    plain_name,
)
from ottla.sql.plan.planner import plan_query
from ottla.sql.syntax import parse
from ottla.sql.syntax.statement_mask import mask_statement
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
    from ottla.sql.run.query_executor import QueryExecutor

WRITE_TRIES_MAX: Final = 20
START_S_MAX: Final = 60.0
TROUBLE_S: Final = 5.0
LOOK_S: Final = 0.1
STOP_S_MAX: Final = 60.0
"""A statement that stops a query returns when it has stopped: then it writes no more rows."""

log = logging.getLogger("ottla.sql")


@dataclass(slots=True)
class SessionProperties:
    """Properties and variables of a request, with the effect of its SET and DEFINE statements."""

    overrides: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)


class Engine:
    """`workers` runs queries on Spark and keeps tables in memory; without it the engine does
    everything else.

    `headless`: a file has the statements, and is executed at each start. There is no command topic,
    and query ids have the positions of statements in the file. Unless they are given, `cluster` and
    `registry` are those in the settings.
    """

    def __init__(
        self,
        settings: KsqlConfig,
        workers: QueryExecutor | None = None,
        *,
        host: str = "localhost",
        headless: bool = False,
        cluster: TopicClient | None = None,
        registry: SchemaRegistry | None = None,
    ) -> None:
        load_user_functions(settings.get(MODULES), BUILTIN)
        self.headless = headless
        self.settings = settings
        self.host = host
        self.workers = workers
        self.cluster = cluster or TopicClient(settings.bootstrap_servers, settings.client)
        self._connectors = Connectors(settings)
        self._schemas = Schemas(registry or registry_of(settings.registry))
        self._topic = CommandTopic(settings.bootstrap_servers, settings.service_id, settings.client)
        self.command_runner = CommandRunner(
            None if headless else self._topic, self.cluster.partition_count, self._changed
        )
        self._state_ownership = StateOwnership(
            settings.bootstrap_servers,
            topic=self._topic.name,
            group=f"_ottla-sql-{settings.service_id}home",
            moved=settings.get(STATE_MOVED).lower() == "true",
            settings=settings.client,
        )
        ready = workers.queries_if_ready if workers else None
        self.reconciler = QueryReconciler(ready, self._claim) if ready else None
        self._lease = Lease(
            settings.bootstrap_servers,
            topic=self._topic.name,
            group=f"_ottla-sql-{settings.service_id}runner",
            changed=self._lease_changed,
            prepare=self._topic.make,
            settings=settings.client,
        )
        self._writing = threading.Lock()
        self._open: dict[str, tuple[QueryResult, Select | Print]] = {}

    def start(self) -> None:
        """Return at once; reading commands and starting Spark go on in the background."""
        if self.workers is not None and self.reconciler is not None:
            self.workers.warm_up(self.reconciler.look_again)
            self.reconciler.start()
        self.command_runner.start()

    def close(self) -> None:
        """Stop queries between two batches; the next start continues there."""
        for query_id in list(self._open):
            self.close_query(query_id)
        if self.workers is not None:
            self.workers.give_up_waiting()
        self._lease.close()
        self.command_runner.close()
        if self.reconciler is not None:
            self.reconciler.close()
        if self.workers is not None:
            self.workers.close()
        self._topic.close()
        self._schemas.close()
        self.cluster.close()

    def _changed(self, state: EngineState) -> None:
        if self.reconciler is not None:
            self.reconciler.want(state)
            if not self.headless:  # now the state says what should run
                self.ask_to_run()

    def ask_to_run(self) -> None:
        """Join the group of servers that may get the lease."""
        if not self._lease.started:
            self._lease.start()

    def _lease_changed(self, held: bool) -> None:
        if self.reconciler is not None:
            self.reconciler.hold(held)

    def _claim(self, wanted: bool) -> str:
        if not wanted:
            self._state_ownership.release()
            return ""
        assert self.workers is not None
        trouble = self.workers.trouble_of_state_dir()
        return trouble or self._state_ownership.claim(StateDirectory.of(self.workers.state_dir))

    # State

    @property
    def state(self) -> EngineState:
        return self.command_runner.state

    def wait_ready(self, timeout_s: float = START_S_MAX) -> None:
        """Wait until the command topic has been replayed; fail early if no broker is available."""
        deadline, patience = time.monotonic() + timeout_s, time.monotonic() + TROUBLE_S
        while not self.command_runner.replayed.wait(LOOK_S):
            now = time.monotonic()
            if now < (patience if self.command_runner.trouble else deadline):
                continue
            raise SqlError(
                "The server is still reading its command topic."
                + (f" {self.command_runner.trouble}" if self.command_runner.trouble else ""),
                remedy="Is the broker running, and are bootstrap.servers right? Try again soon.",
                code=SqlCode.NOT_READY,
            )

    def query_facts(self) -> dict[str, QueryDescription]:
        """The status of each persistent query on this server."""
        state, reconciler = self.state, self.reconciler
        found: dict[str, QueryDescription] = {}
        running = self.workers.states() if self.workers else {}
        for id_, query in state.catalog.queries.items():
            known = running.get(id_)
            cause = reconciler.causes.get(id_, "") if reconciler else ""
            if cause:
                found[id_] = QueryDescription("FAILED", cause)
            elif known is not None and known.state == "FAILED":
                found[id_] = replace(known, cause=advised(id_, known.cause))
            elif known is not None:
                found[id_] = known
            elif query.paused:
                found[id_] = QueryDescription("PAUSED")
            else:
                standby = reconciler is not None and self._lease.asked and not reconciler.held
                waits = QueryDescription("STANDBY", self._lease.cause) if standby else None
                found[id_] = waits or QueryDescription("STARTING", self._spark_cause())
        for id_, failure in state.failures.items():
            found[id_] = QueryDescription("FAILED", failure.cause)
        return found

    def _spark_cause(self) -> str:
        """Why queries wait for Spark; empty if they don't."""
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
        """Execute statements one after another; return their entities.

        All are validated first, and none is executed if one is invalid. `after` is the sequence
        number of a command that this server must have executed before. An error has `entities`:
        those of the statements before it. `check` may raise, before anything is executed.
        """
        self.wait_ready()
        if after >= 0 and self.command_runner.wait(after, self.settings.command_timeout_s) is None:
            raise SqlError(
                f"Timed out while waiting for command {after} to be executed.",
                remedy="Try again.",
                code=SqlCode.NOT_READY,
            )
        session = SessionProperties(checked(properties or {}), dict(variables or {}))
        statements = self._parsed(text, session)
        check(statements)
        self._validate(statements, session)
        done: list[Entity] = []
        for statement in statements:
            try:
                found = self._execute(statement, session)
            except SqlError as error:
                raise _with_position(error, statement, done) from error
            if found is not None:
                done.append(found)
        return done

    def execute_file(self, text: str) -> list[Entity]:
        """Execute the file of a headless server: definitions, queries, SET and DEFINE."""
        for statement in self._parsed(text, SessionProperties()):
            if not isinstance(statement, (*CHANGING, SetProperty, UnsetProperty, Define, Undefine)):
                raise _with_position(refusal_in_file(statement), statement, [])
        return self.execute(text)

    def _parsed(self, text: str, session: SessionProperties) -> list[Statement]:
        try:
            found = parse(text, types=self.state.catalog.types, variables=session.variables)
        except SqlError as error:
            error.statement = error.statement or text
            raise
        if not found:
            raise SqlError(
                "The request contains no statement.",
                remedy="SHOW STREAMS; for example.",
                statement=text,
            )
        return [mask_statement(statement) for statement in found]

    def _validate(self, statements: Sequence[Statement], session: SessionProperties) -> None:
        """Validate all changes in a sandbox: either all statements are valid, or none is
        executed."""
        if len(statements) < 2 and not isinstance(statements[0], CreateConnector):
            return
        state, overrides = self.state, dict(session.overrides)
        made: dict[str, int] = {}
        connectors = self._connectors.sandbox()

        def partition_count(topic: str) -> int | None:
            return made.get(topic) or self.cluster.partition_count(topic)

        for statement in statements:
            try:
                if isinstance(statement, SetProperty):
                    overrides[check_property(statement.name, statement.value)] = statement.value
                elif isinstance(statement, UnsetProperty):
                    overrides.pop(plain_name(statement.name), None)
                elif isinstance(statement, (CreateConnector, DropConnector)):
                    connectors.check(statement)
                elif isinstance(statement, CHANGING):
                    context = PlanningContext(
                        state.position + 1, self._properties(overrides), partition_count
                    )
                    planned = plan_change(self._inferred(statement, context), state, context)
                    state = planned.state
                    made |= {spec.name: spec.partitions for spec in planned.topics}
            except SqlError as error:
                raise _with_position(error, statement, []) from error

    def _properties(self, overrides: Mapping[str, str]) -> dict[str, str]:
        return {**self.settings.session, **overrides}

    def _execute(self, statement: Statement, session: SessionProperties) -> Entity | None:
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

    def _answer(self, statement: Statement, session: SessionProperties) -> Entity:
        facts = DescriptionContext(
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
                return descriptions.show(statement, facts)
            case DescribeConnector():
                return self._connectors.describe(statement, facts)
            case Describe():
                return descriptions.describe(statement, facts)
            case DescribeSources():
                return descriptions.describe_sources(statement, facts)
            case DescribeFunction():
                return descriptions.describe_function(statement)
            case Explain():
                return self._explain(statement, facts, session)
        raise refusal(statement)

    def _explain(
        self,
        statement: Explain,
        facts: DescriptionContext,
        session: SessionProperties,
    ) -> Entity:
        if statement.query_id:
            return descriptions.explain_running(statement.query_id, statement.text, facts)
        inner = statement.statement
        if not isinstance(inner, (Select, CreateAsSelect, InsertSelect)):
            raise SqlError(
                "The provided statement does not run a ksql query",
                remedy="EXPLAIN takes the id of a query, or a statement with a SELECT.",
            )
        if isinstance(inner, Select):
            plan = plan_query(inner.query, facts.state.catalog, self._properties(session.overrides))
            return descriptions.explain_plan(inner.text, plan)
        properties = self._properties(session.overrides)
        position = facts.state.position + 1
        context = PlanningContext(position, properties, self.cluster.partition_count)
        changed = plan_change(inner, facts.state, context)
        return descriptions.explain_plan(inner.text, changed.state.plans[changed.query_id])

    # Changes: validate, write, execute

    def _write(self, written: Statement, session: SessionProperties) -> Entity:
        statement = written
        with self._writing:
            for _ in range(WRITE_TRIES_MAX):
                state, properties = self.state, self._properties(session.overrides)
                context = PlanningContext(
                    state.position + 1, properties, self.cluster.partition_count
                )
                statement = self._inferred(written, context)
                planned = plan_change(statement, state, context)
                if planned.idle:
                    return _idle(statement, planned, state.position)
                self._check_schemas(statement, planned)
                # Topics and schemas before the command, because replays don't create them.
                for spec in planned.topics:
                    self.cluster.make(spec)
                self._register_schemas(statement, planned)
                command = Command(
                    command_id(statement),
                    statement.text,
                    session.overrides,
                    self.settings.session,
                    state.basis,
                )
                if self.headless:
                    number = self.command_runner.take(command)
                else:
                    number = self._topic.write(command)
                status = self.command_runner.wait(number, self.settings.command_timeout_s)
                if status is None or status.outcome is not CommandStatusCode.VOID:
                    break
            else:
                raise SqlError(
                    "Other servers keep writing statements at the same time.",
                    remedy="Try again.",
                    code=SqlCode.SERVER_ERROR,
                )
        # Without the lock: other statements need not wait until queries have stopped.
        if self.reconciler is not None and stops_queries(state, planned.state):
            self.reconciler.settle(STOP_S_MAX)
        if isinstance(statement, DropSource) and self.workers is not None:
            self.workers.forget(state.catalog, statement.name)
        if planned.topic_to_delete:  # last, when no query writes to it any more
            self.cluster.delete(planned.topic_to_delete)
            assert isinstance(statement, DropSource)
            self._schemas.delete(state.catalog.sources[statement.name])
        return _status_entity(statement, number, status)

    def _inferred(self, statement: Statement, context: PlanningContext) -> Statement:
        """Add the columns that the schema registry has, so that the command contains them."""
        if isinstance(statement, CreateSource):
            return self._schemas.inferred(statement, context.properties)
        return statement

    def _check_schemas(self, statement: Statement, planned: StateChange) -> None:
        if isinstance(statement, CreateAsSelect):
            self._schemas.check(planned.state.catalog.sources[statement.name])

    def _register_schemas(self, statement: Statement, planned: StateChange) -> None:
        """Register schemas; a stream over an existing subject leaves it alone."""
        if isinstance(statement, (CreateSource, CreateAsSelect)):
            source = planned.state.catalog.sources[statement.name]
            self._schemas.register(source, even_if_there=isinstance(statement, CreateAsSelect))

    # Rows

    def _insert_values(self, statement: InsertValues) -> None:
        target = self.state.catalog.find(statement.target)
        self._needs_workers().insert_values(statement, target)

    def insert(self, target: str, row: Mapping[str, Any]) -> None:
        """Insert a row of /inserts-stream; columns by name."""
        self._needs_workers().insert_row(self.state.catalog.find(target), row)

    def query(
        self,
        text: str,
        properties: Mapping[str, object] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> QueryResult:
        """Open a push query, a pull query or PRINT. The caller closes the result."""
        self.wait_ready()
        session = SessionProperties(checked(properties or {}), dict(variables or {}))
        statements = self._parsed(text, session)
        *before, last = statements
        if not isinstance(last, (Select, Print)) or not all(
            isinstance(statement, (SetProperty, UnsetProperty, Define, Undefine))
            for statement in before
        ):
            raise SqlError(
                f"Statement type `{type(last).__name__}` not supported for this resource",
                remedy="Send one SELECT or PRINT here, and other statements to /ksql.",
                statement=last.text,
                code=SqlCode.BAD_STATEMENT,
            )
        for statement in before:
            self._execute(statement, session)
        try:
            answer = self._opened(last, self._properties(session.overrides))
        except SqlError as error:
            raise _with_position(error, last, []) from error
        self._open[answer.query_id] = answer, last
        return answer

    def _opened(self, statement: Select | Print, properties: Mapping[str, str]) -> QueryResult:
        workers = self._needs_workers()
        if isinstance(statement, Print):
            return workers.print_topic(statement)
        if statement.query.emit is None:
            return workers.pull(statement, self.state.catalog, properties)
        return workers.push(statement, self.state.catalog, properties)

    def close_query(self, query_id: str) -> bool:
        """Close a query, which ends its result. False if it is not open here."""
        found = self._open.pop(query_id, None)
        if found is None:
            return False
        answer, _ = found
        answer.close()
        return True

    def _pushed(self) -> dict[str, str]:
        """Statement texts of the open push queries, by id."""
        return {
            id_: statement.text
            for id_, (answer, statement) in list(self._open.items())
            if answer.is_push and isinstance(statement, Select)
        }

    @property
    def open_queries(self) -> int:
        return len(self._open)

    def _needs_workers(self) -> QueryExecutor:
        if self.workers is None:
            raise SqlError(
                "This server runs no queries.", remedy="Use another one.", code=SqlCode.NOT_READY
            )
        return self.workers


def _idle(statement: Statement, planned: StateChange, position: int) -> Entity:
    if isinstance(statement, (CreateSource, CreateAsSelect)):
        return warning(statement.text, planned.message)
    return current_status(
        statement.text,
        command_id=command_id(statement),
        status=CommandStatusCode.SUCCESS,
        message=planned.message,
        number=position,
    )


def _status_entity(statement: Statement, number: int, status: CommandStatus | None) -> Entity:
    return current_status(
        statement.text,
        command_id=command_id(statement),
        status=status.outcome if status else CommandStatusCode.QUEUED,
        message=status.message if status else "Statement written to command topic",
        query_id=status.query_id if status else "",
        number=number,
    )


def _with_position(error: SqlError, statement: Statement, done: Iterable[Entity]) -> SqlError:
    """The error with its statement, and the entities of the statements before it."""
    error.statement = error.statement or statement.text
    error.entities = list(done)
    return error

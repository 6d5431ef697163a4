"""Orders and payments, joined, counted and stored as they arrive: `make demo`.

Starts a broker with a schema registry and, on one Spark session, three products: a SQL query that
joins orders with payments (and shows the table as it changes), a stream job that counts orders, and
a connector that writes payments to Parquet files. All records are Avro, with the schemas that SQL
registers. The demo ends by itself; its exit code is 1 if a result does not match what was sent.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import runpy
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet
from rich.console import Console
from rich.live import Live
from rich.syntax import Syntax
from rich.table import Table

from ottla.client import Admin, Producer, TopicPartition
from ottla.client.schema_registry import SchemaRegistry
from ottla.client.serdes.avro import Avro
from ottla.connect.run import connector_runner
from ottla.connect.run.worker_context import WorkerContext
from ottla.errors import KafkaError
from ottla.progress import step
from ottla.spark import session
from ottla.sql.engine.engine import Engine
from ottla.sql.ksql_config import KsqlConfig
from ottla.sql.run.query_executor import QueryExecutor
from ottla.streams.run.application import Application
from ottla.testing import LocalCluster

STATEMENTS = """\
CREATE STREAM orders (order_id STRING KEY, product STRING, amount INTEGER)
  WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO', PARTITIONS=2);

CREATE STREAM payments (order_id STRING KEY, method STRING)
  WITH (KAFKA_TOPIC='payments', VALUE_FORMAT='AVRO', PARTITIONS=2);

CREATE TABLE revenue AS
  SELECT o.product AS product, COUNT(*) AS paid, SUM(o.amount) AS amount
  FROM orders o JOIN payments p WITHIN 1 MINUTE GRACE PERIOD 10 SECONDS ON o.order_id = p.order_id
  WINDOW TUMBLING (SIZE 10 SECONDS)
  GROUP BY o.product
  EMIT CHANGES;
"""
LIVE = "SELECT * FROM revenue EMIT CHANGES;"
AFTERWARDS = "SELECT product, WINDOWSTART, paid, amount FROM revenue;"

HERE = Path(__file__).parent
JOB = HERE / "sales_job.py"
CONNECTOR = HERE / "payments_to_parquet.json"

PRODUCTS = ("apple", "bread", "cheese", "dates", "endive")
METHODS = ("card", "cash", "transfer")
ORDERS_PER_S = 20
PAID_OF_TEN = 8
SETTLE_S = 180.0

Row = tuple[str, int, int, int]
"""Product, start of the window, count, amount."""


@dataclass
class Shop:
    """Generates orders, and payments for most of them, and keeps the expected results."""

    bootstrap_servers: str
    registry_url: str
    seed: int
    orders: int = 0
    payments: int = 0
    ordered: Counter[str] = field(default_factory=Counter)
    paid: Counter[str] = field(default_factory=Counter)
    amounts: Counter[str] = field(default_factory=Counter)
    closed: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        chance = random.Random(self.seed)
        # Values are dicts, written with the schema that CREATE STREAM has registered.
        latest = {"auto.register.schemas": False, "use.latest.version": True}
        value = Avro(registry=self.registry_url, settings=latest)
        with Producer(self.bootstrap_servers, value=value) as producer:
            while not self.closed.wait(1 / ORDERS_PER_S):
                self._sell(producer, chance)

    def _sell(self, producer: Producer[Any, Any], chance: random.Random) -> None:
        self.orders += 1
        key, product = f"order-{self.orders}", chance.choice(PRODUCTS)
        amount = chance.randint(1, 40)
        self.ordered[product] += 1
        producer.send("orders", key=key, value={"PRODUCT": product, "AMOUNT": amount})
        if chance.randrange(10) < PAID_OF_TEN:
            self.payments += 1
            self.paid[product] += 1
            self.amounts[product] += amount
            method = chance.choice(METHODS)
            producer.send("payments", key=key, value={"METHOD": method})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30, help="how long the shop is open")
    parser.add_argument("--seed", type=int, default=1)
    wishes = parser.parse_args()
    console = Console()
    tell_steps()
    with tempfile.TemporaryDirectory() as state, ExitStack() as stack:
        with step("A broker and a schema registry start"):
            cluster = stack.enter_context(LocalCluster(process=True, registry=True))
        servers, registry = cluster.bootstrap_servers, cluster.registry_url
        console.print(
            f"A broker listens on [bold]{servers}[/bold], a registry at [bold]{registry}[/bold]."
        )
        engine = stack.enter_context(engine_on(servers, registry, state, console))
        sales = stack.enter_context(sales_on(servers, registry, state, console))
        files = Path(state) / "parquet"
        stack.enter_context(payments_to(files, servers, registry, console))
        shop = Shop(servers, registry, wishes.seed)
        console.print(
            f"The shop is open for {wishes.seconds:.0f} s: orders, payments, and the table as it"
            " changes."
        )
        right = show(engine, shop, wishes.seconds, console)
        with step("The stream job counts the last orders"):
            counted = sales_agree(sales, shop, console)
        with step("The connector writes the last payments"):
            written = files_agree(files, servers, console)
        console.print("All of it stops.")
        return 0 if right and counted and written else 1


def tell_steps() -> None:
    """A spinner per step on a terminal, lines in a file or a pipe."""
    steps = logging.getLogger("ottla.progress")
    steps.setLevel(logging.INFO)
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("== %(message)s"))
    steps.addHandler(handler)
    steps.propagate = False


@contextmanager
def engine_on(
    bootstrap_servers: str, registry_url: str, state: str, console: Console
) -> Iterator[Engine]:
    settings = KsqlConfig(
        {
            "bootstrap.servers": bootstrap_servers,
            "ksql.schema.registry.url": registry_url,
            "ksql.streams.state.dir": state,
            "auto.offset.reset": "earliest",
        }
    )
    workers = QueryExecutor(settings)
    engine = Engine(settings, workers)
    engine.start()
    try:
        console.print(Syntax(STATEMENTS, "sql", background_color="default"))
        engine.execute(STATEMENTS)
        show_schemas(registry_url, console)
        with step("The queries wait for Spark"):
            trouble = workers.wait_for_spark()
        if trouble:
            raise RuntimeError(f"Spark did not start: {trouble}")
        yield engine
    finally:
        engine.close()


def show_schemas(registry_url: str, console: Console) -> None:
    """The schemas that SQL has registered, with which any client can use these topics."""
    registry = SchemaRegistry(registry_url)
    for subject in registry.subjects():
        found = registry.version(subject)
        names = ", ".join(field["name"] for field in json.loads(found.text)["fields"])
        console.print(f"Schema {found.id} in Avro: [bold]{subject}[/bold] has {names}")
    registry.close()


@contextmanager
def sales_on(
    bootstrap_servers: str, registry_url: str, state: str, console: Console
) -> Iterator[Application]:
    """The stream job, as `ottla streams run` runs it."""
    console.print(f"A stream job: [bold]{JOB.name}[/bold]")
    console.print(
        Syntax(
            JOB.read_text().partition("annotations\n\n")[2], "python", background_color="default"
        )
    )
    os.environ["OTTLA_SCHEMA_REGISTRY_URL"] = registry_url  # read by the job
    topology = runpy.run_path(str(JOB))["topology"]
    with Application(
        topology,
        application_id="sales",
        bootstrap_servers=bootstrap_servers,
        state_dir=state,
        spark=session.start,
        config={"auto.offset.reset": "earliest"},
    ) as job:
        yield job.start()


@contextmanager
def payments_to(
    files: Path, bootstrap_servers: str, registry_url: str, console: Console
) -> Iterator[connector_runner.Running]:
    """The connector, as `ottla connect create` creates it."""
    console.print(f"A connector: [bold]{CONNECTOR.name}[/bold]")
    wish = json.loads(CONNECTOR.read_text())
    registry = {"value.converter.schema.registry.url": registry_url}
    config = {**wish["config"], **registry, "store.url": str(files)}
    worker = WorkerContext({"bootstrap.servers": bootstrap_servers})
    running = connector_runner.start_connector(
        wish["name"], config, spark=session.start, worker=worker
    )
    try:
        yield running
    finally:
        running.stop()


def show(engine: Engine, shop: Shop, seconds: float, console: Console) -> bool:
    """Shows the table while the shop is open, and until it has all payments."""
    selling = threading.Thread(target=shop.run, name="shop")
    rows: dict[tuple[str, int], Row] = {}
    end = time.monotonic() + seconds
    with closing(engine.query(LIVE)) as answer, Live(console=console) as live:
        names = answer.names
        selling.start()
        try:
            while time.monotonic() < end + SETTLE_S and not (
                shop.closed.is_set() and complete(rows, shop)
            ):
                for record in answer.take(0.2) or ():
                    row = row_of(dict(zip(names, record.values, strict=True)))
                    rows[row[0], row[1]] = row
                if time.monotonic() >= end and not shop.closed.is_set():
                    shop.closed.set()
                    selling.join()
                live.update(table_of(rows, shop))
        finally:
            shop.closed.set()
            selling.join()
    return verdict(engine, shop, console)


def row_of(values: dict[str, Any]) -> Row:
    return values["PRODUCT"], values["WINDOWSTART"], values["PAID"], values["AMOUNT"]


def complete(rows: dict[tuple[str, int], Row], shop: Shop) -> bool:
    return sum(row[2] for row in rows.values()) == shop.payments


def table_of(rows: dict[tuple[str, int], Row], shop: Shop) -> Table:
    title = f"{shop.orders} orders, {shop.payments} payments"
    table = Table(title=title, caption=LIVE, title_justify="left", caption_justify="left")
    table.add_column("window")
    for product in PRODUCTS:
        table.add_column(product, justify="right")
    for start in sorted({row[1] for row in rows.values()}):
        found = [rows.get((product, start)) for product in PRODUCTS]
        cells = [f"{product[2]} for {product[3]}" if product else "" for product in found]
        table.add_row(time.strftime("%H:%M:%S", time.localtime(start / 1000)), *cells)
    return table


def verdict(engine: Engine, shop: Shop, console: Console) -> bool:
    """Compares a pull query with what was sent."""
    paid: Counter[str] = Counter()
    amounts: Counter[str] = Counter()
    with closing(engine.query(AFTERWARDS)) as answer:
        while (rows := answer.take(1.0)) is not None:
            for product, _, count, amount in (row_of_pull(row.values) for row in rows):
                paid[product] += count
                amounts[product] += amount
    right = (paid, amounts) == (shop.paid, shop.amounts)
    console.print(Syntax(AFTERWARDS, "sql", background_color="default"))
    console.print(
        f"{sum(paid.values())} payments of {sum(amounts.values())} in all windows: "
        + ("[green]all that were sent, each once.[/green]" if right else "[red]not so![/red]")
    )
    return right


def sales_agree(job: Application, shop: Shop, console: Console) -> bool:
    """Compares the job's store with the orders."""
    found: dict[str, int] = {}
    end = time.monotonic() + SETTLE_S
    while found != shop.ordered and time.monotonic() < end:
        found = dict(job.store("sales").all())
        time.sleep(0.1)
    said(console, f"{sum(found.values())} orders counted by the stream job", found == shop.ordered)
    return found == shop.ordered


def files_agree(files: Path, bootstrap_servers: str, console: Console) -> bool:
    """A file is written when it has ten records, so a partition's last few records are in none."""
    size = int(json.loads(CONNECTOR.read_text())["config"]["flush.size"])
    with Admin(bootstrap_servers) as admin:
        found = admin.offsets.find(TopicPartition("payments", partition) for partition in range(2))
    ends = [offset.offset for offset in found.values() if not isinstance(offset, KafkaError)]
    wanted = sum(end - end % size for end in ends)
    rows, names = 0, list[Path]()
    end = time.monotonic() + SETTLE_S
    while rows != wanted and time.monotonic() < end:
        names = sorted(files.rglob("*.parquet"))
        rows = sum(pyarrow.parquet.read_metadata(name).num_rows for name in names)
        time.sleep(0.1)
    said(console, f"{rows} payments in {len(names)} Parquet files of {size}", rows == wanted)
    return rows == wanted


def said(console: Console, what: str, right: bool) -> None:
    console.print(f"{what}: " + ("[green]as it should be.[/green]" if right else "[red]no![/red]"))


def row_of_pull(values: Any) -> Row:
    product, start, count, amount = values
    return product, start, count, amount


if __name__ == "__main__":
    sys.exit(main())

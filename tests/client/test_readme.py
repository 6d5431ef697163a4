"""README's examples of the client run as printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from ottla.client import Consumer, Producer
from ottla.testing import LocalCluster

README: Final = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
WAIT_S: Final = 60.0
BILL: Final = (
    "def bill(order):\n    return {'total': order['total']}\n\n\nprint('begun', flush=True)\n"
)
IMPORTS: Final = "from ottla.client import Consumer, Producer\n\n\n"


def block(words: str, servers: str) -> str:
    """The Python block of README that has these words."""
    found = [
        entry for entry in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if words in entry
    ]
    assert len(found) == 1
    return found[0].replace("localhost:9092", servers)


def test_the_five_lines_run_to_the_end(kafka: LocalCluster) -> None:
    code = block("greetings", kafka.bootstrap_servers)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_S
    )
    assert (done.stdout, done.stderr, done.returncode) == ("b'en' b'hello'\n", "", 0)


def test_the_exactly_once_loop_may_be_started_before_its_topic_exists(kafka: LocalCluster) -> None:
    servers = kafka.bootstrap_servers
    code = IMPORTS + BILL + block("invoices", servers)
    billing = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert billing.stdout is not None
        assert billing.stdout.readline() == "begun\n"
        with Producer(servers, value=dict) as producer:
            for total in range(3):
                producer.send("orders", {"total": total})
        with Consumer(
            servers,
            "invoices",
            value=dict,
            auto_offset_reset="earliest",
            settings={"isolation.level": "read_committed"},
        ) as consumer:
            billed = [record.value for record in consumer.take(3, WAIT_S)]
    finally:
        billing.kill()
        billing.communicate()
    assert billed == [{"total": total} for total in range(3)]

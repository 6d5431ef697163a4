"""What ACLs cost: the CPU time of a Produce and of a Fetch, with an authorizer and without.

    python -m benchmarks.access_cost [--rounds 12]

No socket, no client: two brokers in this process serve the same frames in turn, one of them with an
authorizer and a rule for this client among a thousand others. The best round of each is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path

from benchmarks.metrics_cost import TOPIC, cpu_us, fetch_frame, produce_frame
from ottla.auth.acls import Acl, AclOperation, AclPattern, AclPermission, AclResource
from ottla.auth.authorizer import AclIndex
from ottla.broker.broker import Broker
from ottla.cluster.topics import TopicSpec
from ottla.config import ServerConfig

OTHERS = 1000
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def rule(topic: str, operation: AclOperation, principal: str) -> Acl:
    allow, literal = AclPermission.ALLOW, AclPattern.LITERAL
    return Acl(AclResource.TOPIC, topic, literal, principal, "*", operation, allow)


def rules() -> list[Acl]:
    operations = (AclOperation.READ, AclOperation.WRITE)
    ours = [rule(TOPIC, operation, "User:ANONYMOUS") for operation in operations]
    return [*ours, *(rule(f"t{n}", operations[0], f"User:{n}") for n in range(OTHERS))]


async def start(directory: Path, **more: str) -> Broker:
    properties = {"log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:0", **more}
    broker = Broker(ServerConfig(properties))
    await broker.start()
    await broker.controller.create_topics([TopicSpec(TOPIC, 1)])
    return broker


async def measure(directory: Path, rounds: int) -> dict[str, dict[str, float]]:
    off = await start(directory / "off")
    named = {"authorizer.class.name": AUTHORIZER}
    on = await start(directory / "on", **named)
    assert on.access is not None
    on.access.authorizer.use(AclIndex(rules()))
    found: dict[str, dict[str, float]] = {}
    for name, data in (("Produce", produce_frame()), ("Fetch", fetch_frame())):
        without, with_acls = [], []
        for _ in range(rounds):
            without.append(cpu_us(off, data))
            with_acls.append(cpu_us(on, data))
        found[name] = {"off": round(min(without), 2), "on": round(min(with_acls), 2)}
    await off.stop()
    await on.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.access_cost")
    parser.add_argument("--rounds", type=int, default=12)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(asyncio.run(measure(Path(directory), given.rounds))))


if __name__ == "__main__":
    main()

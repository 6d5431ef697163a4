"""A process that appends to a schema log until it is killed; test_two_writers.py starts some.

    python log_writer.py <bootstrap> <seed> <file>

The file gets a line for each acknowledged append. Ids count from 1 over all subjects, versions
within a subject: the smallest state in which two writers could collide.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path

from ottla.records.record import Record
from ottla.registry.registry_change import RegistryChange
from ottla.registry.schema_log import SchemaLog
from ottla.registry.topic import SchemaTopic

SUBJECTS = 5


class CountedState:
    def __init__(self) -> None:
        self.last_id = 0
        self.versions: dict[str, int] = {}

    def apply(self, record: Record) -> None:
        assert record.key is not None
        key = json.loads(record.key)
        if key["keytype"] == "SCHEMA":
            assert record.value is not None
            self.last_id = max(self.last_id, json.loads(record.value)["id"])
            self.versions[key["subject"]] = key["version"]


def decide(state: CountedState, subject: str, text: str) -> RegistryChange[dict[str, object]]:
    version = state.versions.get(subject, 0) + 1
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    value = {"subject": subject, "version": version, "id": state.last_id + 1, "schema": text}
    return RegistryChange(value, [(json.dumps(key).encode(), json.dumps(value).encode())])


async def main(bootstrap: str, seed: str, file: Path) -> None:
    chance = random.Random(seed)
    log = SchemaLog(topic(bootstrap), topic(bootstrap), CountedState)
    await log.start()
    with file.open("a") as out:
        for count in range(1_000_000):
            subject, text = f"s{chance.randrange(SUBJECTS)}", f"{seed}-{count}"
            answer = await log.write(lambda state, s=subject, t=text: decide(state, s, t))
            print(json.dumps(answer), file=out, flush=True)


def topic(bootstrap: str, *, timeout_s: float = 30.0) -> SchemaTopic:
    return SchemaTopic(
        bootstrap,
        settings={},
        transactional_id="schema-registry-writer",
        timeout_s=timeout_s,
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))

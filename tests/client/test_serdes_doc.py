"""The pieces of docs/registry.md and docs/client.md about serdes do what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ottla.client import Admin
from ottla.testing import LocalCluster

DOCS = Path(__file__).parents[2] / "docs"


def pieces(page: str, word: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return [piece for piece in found if word in piece]


def test_the_pages_pieces_run(with_registry: LocalCluster) -> None:
    (orders,) = pieces("registry.md", "Avro(Order)")
    names: dict[str, Any] = {}
    exec(orders, names)
    assert names["record"].value.customer == "ann"
    (letters,) = pieces("client.md", "dead_letters")
    names["servers"] = with_registry.bootstrap_servers
    names["url"] = with_registry.registry_url
    with Admin(with_registry.bootstrap_servers) as admin:
        admin.topics.create("orders", 1)
    exec(letters, names)
    (own,) = pieces("client.md", "Serde.of")
    exec(own, names)
    assert names["semicolons"].deserialize("rows", b"a;b") == ["a", "b"]

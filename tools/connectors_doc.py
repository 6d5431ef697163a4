"""Writes the tables of settings in docs/connectors.md. `make connectors-doc` runs it.

Between `<!-- settings of X -->` and `<!-- end -->` stand the settings of the connector X.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ottla.connect.api import Connector
from ottla.connect.config import NO_DEFAULT, ConfigKey, as_text
from ottla.connect.plugins import Plugins

PATH = Path(__file__).parent.parent / "docs" / "connectors.md"
PLACE = re.compile(r"(<!-- settings of (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def written(text: str) -> str:
    """The page with all tables updated."""
    plugins = Plugins()

    def table(found: re.Match[str]) -> str:
        connector = plugins.connector(found[2])()
        assert isinstance(connector, Connector)
        return found[1] + settings_table(connector) + found[3]

    return PLACE.sub(table, text)


def settings_table(connector: Connector) -> str:
    lines = ["| setting | type | default | what |", "|---|---|---|---|"]
    for key in connector.config_def().keys.values():
        doc = key.doc.replace("|", "\\|")
        lines.append(f"| `{key.name}` | {key.type.value} | {default_of(key)} | {doc} |")
    return "\n".join(lines) + "\n"


def default_of(key: ConfigKey) -> str:
    if key.default is NO_DEFAULT:
        return "(needed)"
    text = as_text(key.default, key.type)
    return f"`{text}`".replace("|", "\\|") if text else ""


def main() -> int:
    text = PATH.read_text(encoding="utf-8")
    new = written(text)
    PATH.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

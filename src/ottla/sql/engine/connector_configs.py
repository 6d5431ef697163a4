"""The config of a connector, as Connect takes it, from what stands behind WITH."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.sql.syntax.masking import CONNECTOR_CLASS
from ottla.sql.syntax.statements import CreateConnector, Property

JDBC_SOURCE: Final = "io.confluent.connect.jdbc.JdbcSourceConnector"
KEY_TRANSFORMS: Final = "org.apache.kafka.connect.transforms"


def config_of(statement: CreateConnector) -> dict[str, str]:
    """All values are texts for Connect. The JDBC source takes `key` as in ksqlDB: a column."""
    config = {name: _text(value) for name, value in statement.properties.items()}
    if config.get(CONNECTOR_CLASS) == JDBC_SOURCE:
        config = _with_key(config)
    return {**config, "name": statement.name}


def _with_key(config: Mapping[str, str]) -> dict[str, str]:
    """`key`='id' makes a record's key of its column ID, by two transforms; their names are
    ksqlDB's."""
    found = {"tasks.max": "1", **config}
    key = found.pop("key", None)
    if key is None:
        return found
    before = [found["transforms"]] if "transforms" in found else []
    return {
        **found,
        "transforms": ",".join([*before, "ksqlCreateKey", "ksqlExtractString"]),
        "transforms.ksqlCreateKey.type": f"{KEY_TRANSFORMS}.ValueToKey",
        "transforms.ksqlCreateKey.fields": key,
        "transforms.ksqlExtractString.type": f"{KEY_TRANSFORMS}.ExtractField$Key",
        "transforms.ksqlExtractString.field": key,
    }


def _text(value: Property) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

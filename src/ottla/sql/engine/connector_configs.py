"""The config of a connector, made from the WITH clause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.sql.syntax.statement_mask import CONNECTOR_CLASS
from ottla.sql.syntax.statements import CreateConnector, Property

JDBC_SOURCE: Final = "io.confluent.connect.jdbc.JdbcSourceConnector"
KEY_TRANSFORMS: Final = "org.apache.kafka.connect.transforms"


def connector_config(statement: CreateConnector) -> dict[str, str]:
    """Connect takes all values as text. As in ksqlDB the JDBC source has a property `key`: the
    column that becomes the key of records."""
    config = {name: _text(value) for name, value in statement.properties.items()}
    if config.get(CONNECTOR_CLASS) == JDBC_SOURCE:
        config = _with_key(config)
    return {**config, "name": statement.name}


def _with_key(config: Mapping[str, str]) -> dict[str, str]:
    """`key`='id' becomes two transforms that make the record key of column ID. Their names are
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

"""Remedies for statements that are nearly right."""

from __future__ import annotations

import pytest

from ottla.rows.errors import SqlError
from ottla.sql.definitions import CREATE_AS_PROPERTIES, check_properties
from ottla.sql.ksql_config import check_property, checked
from ottla.sql.syntax import parse

WINDOWED = "SELECT a, COUNT(*) FROM s WINDOW {} GROUP BY a EMIT CHANGES;"


def test_names_of_properties() -> None:
    with pytest.raises(SqlError) as found:
        check_properties({"VALUE_FORMT": "JSON"}, CREATE_AS_PROPERTIES)
    assert "Did you mean VALUE_FORMAT" in found.value.remedy
    with pytest.raises(SqlError) as found:
        check_properties({"COLOUR": "red"}, CREATE_AS_PROPERTIES)
    assert found.value.remedy.startswith("Known are: ")
    with pytest.raises(SqlError) as found:
        check_property("auto.offset.rest", "earliest")
    assert "Did you mean auto.offset.reset" in found.value.remedy


def test_the_size_of_the_cache_is_a_number() -> None:
    given = {"ksql.streams.cache.max.bytes.buffering": 0, "statestore.cache.max.bytes": "00 "}
    assert checked(given) == {"cache.max.bytes.buffering": "0", "statestore.cache.max.bytes": "00 "}
    for wrong in ("none", "-1", "0.0", ""):
        with pytest.raises(SqlError, match=r"cache\.max\.bytes\.buffering: Invalid value") as found:
            check_property("cache.max.bytes.buffering", wrong)
        assert "0 emits every update" in found.value.remedy


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("HOPPING (SIZE 1 MINUTE, ADVANCE BY 2 MINUTES)", "by at most its SIZE"),
        ("HOPPING (SIZE 1 MINUTE, ADVANCE BY 0 SECONDS)", "by more than 0"),
        ("TUMBLING (SIZE 0 SECONDS)", "size of a window must be positive"),
        ("SESSION (0 SECONDS)", "size of a window must be positive"),
    ],
)
def test_impossible_windows_have_a_remedy(window: str, message: str) -> None:
    with pytest.raises(SqlError) as found:
        parse(WINDOWED.format(window))
    assert message in found.value.message
    assert (found.value.line, found.value.column) == (1, 34)

"""What is nearly right is told by what was meant."""

from __future__ import annotations

import pytest

from ottla.rows.errors import SqlError
from ottla.sql.definitions import CREATE_AS_PROPERTIES, check_properties
from ottla.sql.settings import check_property
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


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("HOPPING (SIZE 1 MINUTE, ADVANCE BY 2 MINUTES)", "by more than its SIZE"),
        ("HOPPING (SIZE 1 MINUTE, ADVANCE BY 0 SECONDS)", "by nothing"),
        ("TUMBLING (SIZE 0 SECONDS)", "no size"),
        ("SESSION (0 SECONDS)", "no size"),
    ],
)
def test_windows_that_can_not_be(window: str, message: str) -> None:
    with pytest.raises(SqlError) as found:
        parse(WINDOWED.format(window))
    assert message in found.value.message
    assert (found.value.line, found.value.column) == (1, 34)

"""Rules for creating, replacing, altering and dropping sources."""

from __future__ import annotations

import pytest

from ottla.rows.errors import SqlError
from ottla.rows.schema import Column, FormatInfo, Layout, LogicalSchema, Role
from ottla.rows.types import BIGINT, INTEGER, STRING, SqlType
from ottla.sql.catalog import (
    Catalog,
    DataSource,
    PersistentQuery,
    QueryKind,
    altered,
    check_drop,
    check_new,
    check_replace,
    schema_text,
)
from ottla.sql.syntax.statements import Element, SourceKind

ID = Column("ID", STRING, Role.KEY)


def source(
    name: str,
    *values: tuple[str, SqlType],
    kind: SourceKind = SourceKind.STREAM,
    reads: tuple[str, ...] = (),
    query_id: str = "",
    read_only: bool = False,
    topic: str = "t",
) -> DataSource:
    columns = (ID, *(Column(column, type_) for column, type_ in values))
    layout = Layout(
        LogicalSchema(columns), FormatInfo("KAFKA"), FormatInfo("JSON"), kind is SourceKind.TABLE
    )
    return DataSource(
        name, kind, layout, topic, reads=reads, query_id=query_id, read_only=read_only, partitions=1
    )


def catalog(*sources: DataSource) -> Catalog:
    made = Catalog()
    for source in sources:
        made = made.with_source(source)
    return made


def said(error: pytest.ExceptionInfo[SqlError]) -> str:
    assert error.value.remedy, "an error names the remedy"
    return error.value.message


def test_a_change_gives_a_new_snapshot_and_leaves_the_old_one() -> None:
    old = catalog(source("A"))
    new = old.with_source(source("B")).without_source("A").with_type("T", INTEGER)
    assert list(old.sources) == ["A"]
    assert list(new.sources) == ["B"]
    assert new.types == {"T": INTEGER}
    assert old.types == {}


def test_an_unknown_name_suggests_similar_ones() -> None:
    with pytest.raises(SqlError) as error:
        catalog(source("ORDERS")).find("ORDER", line=3, column=7)
    assert said(error) == "ORDER does not exist."
    assert error.value.remedy == "Did you mean ORDERS?"
    assert str(error.value).startswith("line 3:7: ORDER does not exist.")


def test_a_name_is_given_once() -> None:
    with pytest.raises(SqlError) as error:
        check_new(catalog(source("A")), "A", SourceKind.TABLE)
    assert said(error) == "Cannot add table 'A': A stream with the same name already exists"


def test_replace_may_add_columns_at_the_end() -> None:
    check_replace(catalog(source("A", ("X", INTEGER))), source("A", ("X", INTEGER), ("Y", STRING)))


def test_replace_may_change_no_column_that_is_there() -> None:
    with pytest.raises(SqlError) as error:
        check_replace(catalog(source("A", ("X", INTEGER))), source("A", ("X", BIGINT)))
    assert said(error) == (
        "Cannot upgrade data source: DataSource '`A`' has schema = `ID` STRING KEY, `X` INTEGER"
        " which is not upgradeable to `ID` STRING KEY, `X` BIGINT."
        " (The following columns are changed, missing or reordered: [`X` INTEGER])"
    )


def test_replace_may_not_change_topic_or_kind() -> None:
    there = catalog(source("A"))
    with pytest.raises(SqlError) as error:
        check_replace(there, source("A", topic="other"))
    assert "has topic = t which is not upgradeable to other" in said(error)
    with pytest.raises(SqlError, match="A stream with the same name already exists"):
        check_replace(there, source("A", kind=SourceKind.TABLE))


def test_drop_is_refused_while_others_are_built_on_it() -> None:
    there = catalog(source("A"), source("B", reads=("A",), query_id="CSAS_B_1"))
    with pytest.raises(SqlError) as error:
        check_drop(there, "A")
    assert said(error) == (
        "Cannot drop A.\n"
        "The following streams and/or tables read from this source: [B].\n"
        "You need to drop them before dropping A."
    )
    assert error.value.remedy == "DROP STREAM B;"


def test_drop_ends_the_query_of_the_source_but_fails_with_inserts() -> None:
    there = catalog(source("A"), source("B", reads=("A",), query_id="CSAS_B_1"))
    own = PersistentQuery("CSAS_B_1", "", QueryKind.CREATE_AS, ("A",), "B")
    insert = PersistentQuery("INSERTQUERY_2", "", QueryKind.INSERT, ("A",), "B")
    check_drop(there.with_query(own), "B")
    with pytest.raises(SqlError) as error:
        check_drop(there.with_query(own).with_query(insert), "B")
    assert said(error) == (
        "Cannot drop B.\n"
        "The following queries read from this source: [].\n"
        "The following queries write into this source: [INSERTQUERY_2].\n"
        "You need to terminate them before dropping B."
    )


def test_alter_adds_columns_behind_the_others() -> None:
    there = catalog(source("A", ("X", INTEGER)))
    grown = altered(there, "A", SourceKind.STREAM, [Element("Y", STRING)])
    assert schema_text(grown.schema) == "`ID` STRING KEY, `X` INTEGER, `Y` STRING"


@pytest.mark.parametrize(
    ("made", "kind", "column", "words"),
    [
        (source("B"), SourceKind.STREAM, "Y", "Source A does not exist."),
        (
            source("A"),
            SourceKind.TABLE,
            "Y",
            "Incompatible data source type is STREAM, but statement was ALTER TABLE",
        ),
        (
            source("A", reads=("B",)),
            SourceKind.STREAM,
            "Y",
            "ALTER command is not supported for CREATE ... AS statements.",
        ),
        (
            source("A"),
            SourceKind.STREAM,
            "ID",
            "Cannot add column `ID` to schema. A column with the same name already exists.",
        ),
        (
            source("A", read_only=True),
            SourceKind.STREAM,
            "Y",
            "Cannot alter stream 'A': ALTER operations are not supported on source streams.",
        ),
    ],
)
def test_alter_is_refused(made: DataSource, kind: SourceKind, column: str, words: str) -> None:
    with pytest.raises(SqlError) as error:
        altered(catalog(made), "A", kind, [Element(column, STRING)])
    assert said(error) == words


def test_queries_are_found_in_any_case() -> None:
    query = PersistentQuery("CSAS_B_1", "", QueryKind.CREATE_AS, ("A",), "B")
    assert Catalog().with_query(query).query("csas_b_1") is query
    with pytest.raises(SqlError, match="Unknown queryId: CSAS_B_2"):
        Catalog().query("CSAS_B_2")

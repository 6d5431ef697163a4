"""How the Spark query of a feed or a stage begins."""

from __future__ import annotations

from ottla.spark.sql.run.spells import member_column, wants_earliest


def test_a_query_begins_at_the_end_unless_it_is_told() -> None:
    assert not wants_earliest({})
    assert wants_earliest({"auto.offset.reset": "earliest"})
    assert wants_earliest({"ksql.streams.auto.offset.reset": "EARLIEST"})


def test_a_member_leaves_out_what_it_has_had() -> None:
    text = member_column({"text": "struct(1)", "from": {"0": 5, "1": 7}})
    assert text == (
        "IF(CASE ROWPARTITION WHEN 0 THEN ROWOFFSET >= 5 WHEN 1 THEN ROWOFFSET >= 7"
        " ELSE true END, struct(1), NULL)"
    )
    assert member_column({"text": "struct(1)", "from": {}}) == "struct(1)"

"""Remedies for failed queries."""

from __future__ import annotations

from ottla.sql.engine.advice import advised


def test_a_known_cause_has_a_remedy_and_no_options_of_the_source() -> None:
    cause = (
        "DataLost: Some data may have been missed: orders-0 is gone. If the query is to go on, set"
        ' the source option "failOnDataLoss" to "false" (STREAM_FAILED)'
    )
    assert advised("CTAS_T_1", cause).splitlines() == [
        "DataLost: Some data may have been missed: orders-0 is gone (STREAM_FAILED)",
        "Records were deleted before the query read them: TERMINATE it and create it again.",
    ]
    assert advised("Q", "there is no topic T").endswith("RESUME Q; or TERMINATE Q;")
    state = "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match"
    assert "TERMINATE Q; and create it again" in advised("Q", state)
    assert advised("Q", "something else") == "something else"

"""Options whose values Spark must not show in plans, in its log and in its UI.

Spark hides names with `secret`, `password` and `token` by itself. `sasl.jaas.config`, PEM keys and
what our own options carry about (they have the settings of clients in them) are not among these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REDACTION: Final = "spark.sql.redaction.options.regex"
REDACTED: Final = (
    r"(?i)url|jaas|secret|password|token|credential|keystore[.]key|certificate|[.]pem$"
    r"|user[.]info|ottla[.]work"
)


def hide_secrets(spark: SparkSession) -> None:
    """An operator's own pattern stays, beside ours."""
    own = spark.conf.get(REDACTION, "")
    if own and "jaas" in own:
        return
    spark.conf.set(REDACTION, f"{own}|{REDACTED}" if own and own != "(?i)url" else REDACTED)

"""Redacts options whose values Spark must not show in plans, logs and its UI.

Spark itself redacts names with `secret`, `password` and `token`. That misses `sasl.jaas.config`,
PEM keys, and Ottla's options that contain client settings.
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
    """Keeps an operator's own pattern and adds this one."""
    own = spark.conf.get(REDACTION, "")
    if own and "jaas" in own:
        return
    spark.conf.set(REDACTION, f"{own}|{REDACTED}" if own and own != "(?i)url" else REDACTED)

"""The settings of the storage sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.connectors.jdbc.times import zone_of
from ottla.connect.errors import ConfigException
from ottla.connect.validators import at_least, non_empty_string, one_of, one_of_any_case

FORMATS: Final = ("parquet", "json", "csv")
PARTITIONERS: Final = ("default", "field", "timebased", "daily", "hourly")
DEFAULT, FIELD, TIMEBASED, DAILY, HOURLY = PARTITIONERS
EXTRACTORS: Final = ("wallclock", "record", "recordfield")
WALLCLOCK, RECORD, RECORD_FIELD = EXTRACTORS
CODECS: Final = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")
COMPRESSIONS: Final = ("none", "gzip")
DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def short(value: str, suffix: str = "") -> str:
    """io.confluent.connect.s3.format.parquet.ParquetFormat -> parquet."""
    return value.rpartition(".")[2].lower().removesuffix(suffix)


def named(suffix: str, allowed: tuple[str, ...]) -> Callable[[str, Any], None]:
    """Accepts a short name, or Confluent's class for it."""

    def check(name: str, value: Any) -> None:
        if value is None or short(str(value), suffix) not in allowed:
            raise ConfigException.of(name, value, f"must be one of {', '.join(allowed)}")

    return check


def _where(config: ConfigDef) -> ConfigDef:
    group = "Storage"
    return (
        config.define(
            *("store.url", ConfigType.STRING, None, HIGH),
            "A path, or a URI of pyarrow.fs: file:///data, s3://bucket/prefix, gs://bucket,"
            " hdfs://host:port/path. With s3.bucket.name, the endpoint of the store.",
            group=group,
        )
        .define(
            *("topics.dir", ConfigType.STRING, "topics", HIGH),
            "The folder that contains all topics.", group=group,
        )
        .define("s3.bucket.name", ConfigType.STRING, None, HIGH, "The bucket.", group=group)
        .define("s3.region", ConfigType.STRING, None, MEDIUM, "Its region.", group=group)
        .define("aws.access.key.id", ConfigType.STRING, None, HIGH, "The access key.", group=group)
        .define(
            *("aws.secret.access.key", ConfigType.PASSWORD, None, HIGH),
            "Its secret; by default both come from the AWS credential chain.", group=group,
        )
        .define(
            *("format.class", ConfigType.STRING), importance=HIGH, group=group,
            doc=f"{', '.join(FORMATS)}, or Confluent's class for it.",
            validator=named("format", FORMATS),
        )
        .define(
            *("parquet.codec", ConfigType.STRING, "snappy", LOW),
            f"The codec of Parquet files: {', '.join(CODECS)}.", group=group,
            validator=one_of(*CODECS),
        )
        .define(
            *("compression.type", ConfigType.STRING, "none", LOW),
            "The compression of JSON and CSV files: none, gzip.", group=group,
            validator=one_of(*COMPRESSIONS),
        )
        .define(
            *("filename.offset.zero.pad.width", ConfigType.INT, 10, LOW),
            "The number of digits of the offset in a file name.", group=group,
            validator=at_least(0),
        )
    )  # fmt: skip


def _when(config: ConfigDef) -> ConfigDef:
    group = "Files"
    return (
        config.define(
            *("flush.size", ConfigType.INT), importance=HIGH, group=group,
            doc="How many records of a topic partition to collect before its files are closed.",
            validator=at_least(1),
        )
        .define(
            *("rotate.interval.ms", ConfigType.LONG, -1, HIGH),
            "Close the files when a record is this much later than the first one, by the time of"
            " timestamp.extractor.", group=group,
        )
        .define(
            *("rotate.schedule.interval.ms", ConfigType.LONG, -1, MEDIUM),
            "Close the files whenever the clock passes a multiple of this. A file that is rewritten"
            " after a crash may then end at another record.", group=group,
        )
        .define(
            *("schema.compatibility", ConfigType.STRING, "NONE", HIGH),
            "NONE: a record with another schema starts a new file.", group=group,
            validator=one_of_any_case("NONE"),
        )
        .define(
            *("behavior.on.null.values", ConfigType.STRING, "fail", LOW),
            "What to do with tombstones: fail, ignore.", group=group,
            validator=one_of("fail", "ignore"),
        )
        .define(
            *("json.decimal.format", ConfigType.STRING, "BASE64", LOW),
            "The form of decimals in JSON: BASE64, NUMERIC.", group=group,
            validator=one_of_any_case("BASE64", "NUMERIC"),
        )
    )  # fmt: skip


def _partitions(config: ConfigDef) -> ConfigDef:
    group = "Partitioner"
    return (
        config.define(
            *("partitioner.class", ConfigType.STRING, "default", HIGH),
            f"{', '.join(PARTITIONERS)}, or Confluent's class for it.", group=group,
            validator=named("partitioner", PARTITIONERS),
        )
        .define(
            *("partition.field.name", ConfigType.LIST, "", MEDIUM),
            "The fields of the field partitioner.", group=group,
        )
        .define(
            *("partition.duration.ms", ConfigType.LONG, -1, MEDIUM),
            "The time span of a folder of the timebased partitioner.", group=group,
        )
        .define(
            *("path.format", ConfigType.STRING, "", MEDIUM),
            "The format of its folders: 'year'=YYYY/'month'=MM/'day'=dd.", group=group,
        )
        .define("locale", ConfigType.STRING, "", LOW, "Accepted and ignored: English.", group=group)
        .define(
            *("timezone", ConfigType.STRING, "UTC", MEDIUM),
            "The time zone of folders and schedules.", group=group,
            validator=lambda name, value: _zone(name, value),
        )
        .define(
            *("timestamp.extractor", ConfigType.STRING, "Wallclock", MEDIUM),
            "The time of a record: Wallclock, Record, RecordField.", group=group,
            validator=named("timestampextractor", EXTRACTORS),
        )
        .define(
            *("timestamp.field", ConfigType.STRING, "timestamp", MEDIUM),
            "The field for RecordField.", group=group, validator=non_empty_string,
        )
    )  # fmt: skip


def _zone(name: str, value: Any) -> None:
    zone_of(value, name)


def settings_of(props: Mapping[str, str]) -> dict[str, Any]:
    values = CONFIG.parse(props)
    values["format.class"] = short(values["format.class"], "format")
    values["partitioner.class"] = short(values["partitioner.class"], "partitioner")
    values["timestamp.extractor"] = short(values["timestamp.extractor"], "timestampextractor")
    return values


def problems(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Errors between settings that are valid by themselves: name and message."""
    partitioner = short(str(values.get("partitioner.class") or ""), "partitioner")
    found = []
    if not values.get("store.url") and not values.get("s3.bucket.name"):
        found.append(("store.url", "set store.url or s3.bucket.name"))
    if partitioner == FIELD and not values.get("partition.field.name"):
        found.append(("partition.field.name", "the field partitioner needs partition.field.name"))
    if partitioner == TIMEBASED:
        if not values.get("path.format"):
            found.append(("path.format", "the timebased partitioner needs path.format"))
        if int(values.get("partition.duration.ms") or -1) <= 0:
            found.append(
                ("partition.duration.ms", "the timebased partitioner needs a time span above 0")
            )
    return found


CONFIG: Final = _partitions(_when(_where(ConfigDef()))).check(problems)

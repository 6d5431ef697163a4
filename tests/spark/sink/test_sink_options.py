"""The options and columns of the sink, and its errors for others."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.client.delivery import Delivery
from ottla.records.compression import ZSTD
from ottla.rows.schema import (
    Column,
    FormatInfo,
    Layout,
    LogicalSchema,
    Role,
    WindowInfo,
    WindowKind,
)
from ottla.rows.types import BIGINT, STRING
from ottla.spark.sink.options import SinkError, WriteOptions, write_options
from ottla.spark.sink.partitioner import Partitioner
from ottla.spark.sink.topic_records import check_columns, reader
from ottla.spark.sink.writers import batch_writer

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
LAYOUT = Layout(
    LogicalSchema((Column("ID", BIGINT, Role.KEY), Column("NAME", STRING))),
    FormatInfo("KAFKA"),
    FormatInfo("JSON"),
)


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in columns.items()])


def test_unset_options_have_the_usual_defaults() -> None:
    assert write_options({**SERVERS, "topic": "t"}) == WriteOptions(
        "localhost:9092", {}, topic="t", delivery=None
    )


def test_meaningful_producer_settings_are_honoured() -> None:
    given = write_options(
        {
            **SERVERS,
            "kafka.compression.type": "ZSTD",
            "kafka.delivery.timeout.ms": "5000",
            "kafka.linger.ms": "7",
            "kafka.security.protocol": "SASL_SSL",
            "ottla.delivery": "at_least_once",
            "kafka.acks": "1",
        }
    )
    assert (given.compression, given.patience_s, given.acks) == (ZSTD, 5.0, 1)
    assert given.delivery is Delivery.AT_LEAST_ONCE
    assert not given.idempotent
    assert given.settings == {"security.protocol": "SASL_SSL"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"kafka.bootstrap.servers": ""}, "'kafka.bootstrap.servers' must be specified"),
        ({"kafka.key.serializer": "x"}, "'key.serializer' is not supported"),
        ({"kafka.transactional.id": "x"}, "chooses its transactional ids"),
        ({"kafka.acks": "2"}, "kafka.acks must be one of all, -1, 1, 0"),
        ({"kafka.acks": "1", "ottla.delivery": "exactly_once"}, "needs kafka.acks=all"),
        ({"kafka.compression.type": "rar"}, "none, gzip, snappy, lz4, zstd"),
        ({"kafka.batch.size": "big"}, "batch.size must be a number"),
        ({"ottla.delivery": "at_most_once"}, "at_most_once is not possible"),
        ({"ottla.sink": "x"}, "there is no option ottla.sink"),
        ({"ottla.sink.name": "a b"}, "is not a valid name"),
        ({"ottla.layout": "{}"}, "ottla.layout needs the option topic"),
        ({"ottla.layout": "{}", "ottla.layouts": "[]"}, "give one of them"),
        ({"ottla.layouts": "[1]"}, "ottla.layouts is a JSON list"),
        ({"ottla.batch.id": "1"}, "belong together"),
        ({"ottla.batch.first": "1"}, "belong together"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(SinkError) as caught:
        write_options({**SERVERS, **given})
    assert words in str(caught.value)


def test_columns_of_the_kafka_sink_are_taken() -> None:
    check_columns(
        schema(
            key=StringType(),
            value=BinaryType(),
            topic=StringType(),
            partition=IntegerType(),
            headers=HEADERS,
            timestamp=TimestampType(),
            other=LongType(),
        ),
        write_options(SERVERS),
    )


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"v": StringType()}, "Required attribute 'value' not found"),
        ({"value": StringType()}, "topic option required when no 'topic' attribute is present"),
        ({"value": LongType()}, "value attribute type must be string or binary, but is bigint"),
        ({"value": StringType(), "key": LongType()}, "key attribute type must be"),
        ({"value": StringType(), "partition": LongType()}, "partition attribute type must be int"),
        ({"value": StringType(), "headers": StringType()}, "headers attribute type must be"),
    ],
)
def test_wrong_columns_are_refused(columns: dict[str, DataType], words: str) -> None:
    topic = {} if "topic option" in words else {"topic": "t"}
    with pytest.raises(SinkError) as caught:
        check_columns(schema(**columns), write_options({**SERVERS, **topic}))
    assert words in str(caught.value)


def test_a_topic_is_never_overwritten() -> None:
    with pytest.raises(SinkError, match="overwrite is not allowed"):
        batch_writer({**SERVERS, "topic": "t"}, schema(value=StringType()), True)


def test_typed_rows_are_encoded_by_their_layout() -> None:
    given = write_options({**SERVERS, "topic": "t", "ottla.layout": LAYOUT.to_json()})
    check_columns(schema(ID=LongType(), NAME=StringType()), given)
    with pytest.raises(SinkError, match=r"ottla\.layout has NAME, the rows have ID"):
        check_columns(schema(ID=LongType()), given)
    batch = pa.RecordBatch.from_pydict({"ID": [1, 2], "NAME": ["a", None], "ROWTIME": [5, 6]})
    (records,) = reader(given)(batch)
    assert records.topic == "t"
    assert records.columns.keys.to_pylist() == [(1).to_bytes(8, "big"), (2).to_bytes(8, "big")]
    assert [json.loads(value) for value in records.columns.values.to_pylist()] == [
        {"NAME": "a"},
        {"NAME": None},
    ]
    assert records.columns.timestamps.tolist() == [5, 6]


def test_each_column_of_a_fan_out_goes_to_its_topic() -> None:
    outputs = [
        {"column": "one", "topic": "t1", "layout": LAYOUT.to_json()},
        {"column": "two", "topic": "t2", "layout": json.loads(LAYOUT.to_json())},
    ]
    given = write_options({**SERVERS, "ottla.layouts": json.dumps(outputs)})
    kind = pa.struct([("ID", pa.int64()), ("NAME", pa.string()), ("ROWTIME", pa.int64())])
    rows = [{"ID": number, "NAME": "n", "ROWTIME": 9} for number in range(3)]
    batch = pa.RecordBatch.from_arrays(
        [pa.array([rows[0], None, rows[2]], kind), pa.array([None, rows[1], None], kind)],
        names=["one", "two"],
    )
    found = {cells.topic: cells.columns.keys.to_pylist() for cells in reader(given)(batch)}
    assert found == {
        "t1": [(0).to_bytes(8, "big"), (2).to_bytes(8, "big")],
        "t2": [(1).to_bytes(8, "big")],
    }
    with pytest.raises(SinkError, match="names column 'one'"):
        check_columns(schema(one=StringType()), given)


def test_all_windows_of_a_key_are_in_one_partition() -> None:
    layout = Layout(
        LAYOUT.schema,
        LAYOUT.key_format,
        LAYOUT.value_format,
        windowed=WindowInfo(WindowKind.TUMBLING, 1000),
    )
    given = write_options({**SERVERS, "topic": "t", "ottla.layout": layout.to_json()})
    batch = pa.RecordBatch.from_pydict(
        {
            "ID": [7] * 50,
            "NAME": ["n"] * 50,
            "ROWTIME": [0] * 50,
            "WINDOWSTART": np.arange(50) * 1000,
            "WINDOWEND": np.arange(50) * 1000 + 1000,
        }
    )
    (records,) = reader(given)(batch)
    assert len(set(records.columns.keys.to_pylist())) == 50
    assert len(list(Partitioner().split(records, 8))) == 1

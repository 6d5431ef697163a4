"""Kafka Streams in Python: topologies of streams, tables and processors, run as tasks on Spark.

    topology = Topology()
    words = topology.stream("text", key=String(), value=String()).flat_map_values(str.split)
    words.group_by(lambda word: word, key=String()).count(store="counts").to_stream().to("counts")

    topology.py           where a topology begins: streams, tables, global tables, processors
    stream.py, table.py   the DSL: KStream and KTable
    driver.py             TopologyTestDriver: runs a topology in a unit test

The DSL only writes a graph (ottla.engine.graph); the operators are the engine's. `run/` starts a
topology on Spark and is the only folder here that imports pyspark, so a topology can be built,
tested and described without Spark. Names, defaults and error texts are Kafka Streams' own. This
room must not import `sql` or `connect`.
"""

from typing import TYPE_CHECKING, Any

from ottla.client.serde import (
    Boolean,
    Bytes,
    Double,
    Float,
    Int,
    Json,
    Long,
    Serde,
    SerializationError,
    Short,
    String,
    Uuid,
)
from ottla.client.serdes.avro import Avro
from ottla.client.serdes.generic_values import GenericRecord
from ottla.client.serdes.json_schema import JsonSchema
from ottla.client.serdes.lists import List
from ottla.client.serdes.protobuf import Protobuf
from ottla.engine.failures import (
    Failure,
    FailureKind,
    StreamsError,
    dead_letters,
    fail,
    log_and_continue,
)
from ottla.engine.graph import TopologyError
from ottla.engine.processors import Cancellable, Processor, ProcessorContext, PunctuationType
from ottla.engine.records import Change, Record, RecordMetadata, ValueAndTimestamp, Window, Windowed
from ottla.engine.stores import (
    KeyValueStore,
    SessionStore,
    StoreKind,
    StoreSpec,
    TimestampedKeyValueStore,
    WindowStore,
    key_value_store,
    session_store,
    window_store,
)
from ottla.engine.suppression import Suppressed
from ottla.engine.table_processors import ValueTransformer
from ottla.engine.windowed_serdes import Pickle, SessionWindowed, TimeWindowed
from ottla.engine.windows import (
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    hopping,
    session,
    sliding,
    tumbling,
    unlimited,
    within,
)
from ottla.streams.cogrouped import CogroupedKStream, WindowedCogroupedKStream
from ottla.streams.driver import TopologyTestDriver
from ottla.streams.driver_topics import InputTopic, OutputTopic
from ottla.streams.global_table import GlobalKTable
from ottla.streams.grouped import KGroupedStream, KGroupedTable
from ottla.streams.stream import KStream
from ottla.streams.suppress import EMIT_EARLY, SHUT_DOWN, until_time_limit, until_window_closes
from ottla.streams.table import KTable
from ottla.streams.topology import Topology
from ottla.streams.windowed import EmitStrategy, WindowedKStream

if TYPE_CHECKING:
    from ottla.streams.run.application import Application, ApplicationState, Reaction

__all__ = [
    "EMIT_EARLY",
    "SHUT_DOWN",
    "Application",
    "ApplicationState",
    "Avro",
    "Boolean",
    "Bytes",
    "Cancellable",
    "Change",
    "CogroupedKStream",
    "Double",
    "EmitStrategy",
    "Failure",
    "FailureKind",
    "Float",
    "GenericRecord",
    "GlobalKTable",
    "InputTopic",
    "Int",
    "JoinWindows",
    "Json",
    "JsonSchema",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "KeyValueStore",
    "List",
    "Long",
    "OutputTopic",
    "Pickle",
    "Processor",
    "ProcessorContext",
    "Protobuf",
    "PunctuationType",
    "Reaction",
    "Record",
    "RecordMetadata",
    "Serde",
    "SerializationError",
    "SessionStore",
    "SessionWindowed",
    "SessionWindows",
    "Short",
    "SlidingWindows",
    "StoreKind",
    "StoreSpec",
    "StreamsError",
    "String",
    "Suppressed",
    "TimeWindowed",
    "TimeWindows",
    "TimestampedKeyValueStore",
    "Topology",
    "TopologyError",
    "TopologyTestDriver",
    "UnlimitedWindows",
    "Uuid",
    "ValueAndTimestamp",
    "ValueTransformer",
    "Window",
    "WindowStore",
    "Windowed",
    "WindowedCogroupedKStream",
    "WindowedKStream",
    "dead_letters",
    "fail",
    "hopping",
    "key_value_store",
    "log_and_continue",
    "session",
    "session_store",
    "sliding",
    "tumbling",
    "unlimited",
    "until_time_limit",
    "until_window_closes",
    "window_store",
    "within",
]


def __getattr__(name: str) -> Any:
    """Imports what needs Spark on first use."""
    if name not in ("Application", "ApplicationState", "Reaction"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ottla.streams.run import application

    return getattr(application, name)

"""Kafka Streams' model in Python: topologies of processors, run as tasks on Spark.

No file here but those in run/ imports pyspark: a topology is built, tested and described without.
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
from ottla.engine.processors import (
    Cancellable,
    Context,
    Processor,
    PunctuationType,
)
from ottla.engine.records import (
    Change,
    Record,
    RecordMetadata,
    ValueAndTimestamp,
    Window,
    Windowed,
)
from ottla.engine.serdes import Pickle, SessionWindowed, TimeWindowed
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
from ottla.engine.table_steps import ValueTransformer
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
from ottla.streams.cogrouped import Cogrouped, WindowedCogrouped
from ottla.streams.driver import TopologyTestDriver
from ottla.streams.driver_topics import InputTopic, OutputTopic
from ottla.streams.global_table import GlobalKTable
from ottla.streams.grouped import GroupedStream, GroupedTable
from ottla.streams.stream import Stream
from ottla.streams.suppress import (
    EMIT_EARLY,
    SHUT_DOWN,
    until_time_limit,
    until_window_closes,
)
from ottla.streams.table import Table
from ottla.streams.topology import Topology
from ottla.streams.windowed import EmitStrategy, WindowedStream

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
    "Cogrouped",
    "Context",
    "Double",
    "EmitStrategy",
    "Failure",
    "FailureKind",
    "Float",
    "GenericRecord",
    "GlobalKTable",
    "GroupedStream",
    "GroupedTable",
    "InputTopic",
    "Int",
    "JoinWindows",
    "Json",
    "JsonSchema",
    "KeyValueStore",
    "List",
    "Long",
    "OutputTopic",
    "Pickle",
    "Processor",
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
    "Stream",
    "StreamsError",
    "String",
    "Suppressed",
    "Table",
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
    "WindowedCogrouped",
    "WindowedStream",
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
    """What runs topologies needs Spark: it is imported when somebody asks for it."""
    if name not in ("Application", "ApplicationState", "Reaction"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ottla.streams.run import application

    return getattr(application, name)

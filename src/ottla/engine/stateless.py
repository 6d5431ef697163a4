"""The stateless operations. Each is a Processor; for speed a task runs its `step`.

A step is a function of the record with its downstream already bound, so it looks nothing up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ottla.engine.arity import takes_key, with_key
from ottla.engine.processors import Deliver, Processor, ProcessorContext
from ottla.engine.record_batch import DeliverBatch
from ottla.engine.records import AnyRecord, Record

AnyCall = Callable[..., Any]


class StatelessProcessor(Processor[Any, Any]):
    """Subclasses implement `step`; `process` runs it for direct callers."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._step = self.step(context.downstream)

    def process(self, record: AnyRecord) -> None:
        self._step(record)


class KStreamFilter(StatelessProcessor):
    def __init__(self, predicate: AnyCall, *, wanted: bool = True) -> None:
        self._predicate = predicate
        self._wanted = wanted
        self._keyed = takes_key(predicate)

    def step(self, downstream: Deliver) -> Deliver:
        predicate, wanted = self._predicate, self._wanted

        def by_value(record: AnyRecord) -> None:
            if bool(predicate(record.value)) is wanted:
                downstream(record)

        def by_key_and_value(record: AnyRecord) -> None:
            if bool(predicate(record.key, record.value)) is wanted:
                downstream(record)

        return by_key_and_value if self._keyed else by_value


class NonNullKeyFilter(StatelessProcessor):
    """Drops records with a null key before a repartition, as Kafka does."""

    def step(self, downstream: Deliver) -> Deliver:
        def present(record: AnyRecord) -> None:
            if record.key is not None:
                downstream(record)

        return present


class KStreamMap(StatelessProcessor):
    def __init__(self, mapper: AnyCall) -> None:
        self._mapper = with_key(mapper)

    def step(self, downstream: Deliver) -> Deliver:
        mapper = self._mapper

        def mapped(record: AnyRecord) -> None:
            key, value = mapper(record.key, record.value)
            downstream(Record(key, value, record.timestamp, record.headers))

        return mapped


class KStreamMapValues(StatelessProcessor):
    def __init__(self, mapper: AnyCall) -> None:
        self._mapper = mapper
        self._keyed = takes_key(mapper)

    def step(self, downstream: Deliver) -> Deliver:
        mapper = self._mapper

        def by_value(record: AnyRecord) -> None:
            downstream(Record(record.key, mapper(record.value), record.timestamp, record.headers))

        def by_key_and_value(record: AnyRecord) -> None:
            value = mapper(record.key, record.value)
            downstream(Record(record.key, value, record.timestamp, record.headers))

        return by_key_and_value if self._keyed else by_value


class KStreamSelectKey(StatelessProcessor):
    def __init__(self, selector: AnyCall) -> None:
        self._selector = with_key(selector)

    def step(self, downstream: Deliver) -> Deliver:
        selector = self._selector

        def selected(record: AnyRecord) -> None:
            key = selector(record.key, record.value)
            downstream(Record(key, record.value, record.timestamp, record.headers))

        return selected


class KStreamFlatMap(StatelessProcessor):
    def __init__(self, mapper: AnyCall) -> None:
        self._mapper = with_key(mapper)

    def step(self, downstream: Deliver) -> Deliver:
        mapper = self._mapper

        def mapped(record: AnyRecord) -> None:
            for key, value in mapper(record.key, record.value):
                downstream(Record(key, value, record.timestamp, record.headers))

        return mapped


class KStreamFlatMapValues(StatelessProcessor):
    def __init__(self, mapper: AnyCall) -> None:
        self._mapper = with_key(mapper)

    def step(self, downstream: Deliver) -> Deliver:
        mapper = self._mapper

        def mapped(record: AnyRecord) -> None:
            key, timestamp, headers = record.key, record.timestamp, record.headers
            for value in mapper(key, record.value):
                downstream(Record(key, value, timestamp, headers))

        return mapped


class KStreamPeek(StatelessProcessor):
    """`last`: foreach, which forwards nothing."""

    def __init__(self, action: AnyCall, *, last: bool = False) -> None:
        self._action = with_key(action)
        self._last = last

    def step(self, downstream: Deliver) -> Deliver:
        action, last = self._action, self._last

        def seen(record: AnyRecord) -> None:
            action(record.key, record.value)
            if not last:
                downstream(record)

        return seen


class KStreamPassThrough(StatelessProcessor):
    """Forwards every record: the node of a merge, and of each branch."""

    def step(self, downstream: Deliver) -> Deliver:
        return downstream

    def batch_step(self, downstream: DeliverBatch) -> DeliverBatch | None:
        return downstream


class KStreamBranch(Processor[Any, Any]):
    """Forwards to the first child whose predicate holds; the last child may have none."""

    def __init__(self, predicates: Sequence[AnyCall], children: Sequence[str]) -> None:
        self._predicates = [with_key(predicate) for predicate in predicates]
        self._names = list(children)

    def process(self, record: AnyRecord) -> None:
        for predicate, name in zip(self._predicates, self._names, strict=False):
            if predicate(record.key, record.value):
                self.context.forward(record, name)
                return
        if len(self._names) > len(self._predicates):
            self.context.forward(record, self._names[-1])


class KTableToStream(StatelessProcessor):
    """Turns a table's changes into a stream of new values."""

    def step(self, downstream: Deliver) -> Deliver:
        def newest(record: AnyRecord) -> None:
            downstream(Record(record.key, record.value.new, record.timestamp, record.headers))

        return newest


class FixedKeyProcessor(Processor[Any, Any]):
    """Wraps a processor that must not change keys (`process_values`)."""

    def __init__(self, inner: Processor[Any, Any]) -> None:
        self._inner = inner
        self._key: Any = None

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        own = context.forward
        limited = context.limited(lambda record, child=None: own(self._checked(record), child))
        self._inner.init(limited)

    def process(self, record: AnyRecord) -> None:
        self._key = record.key
        self._inner.process(record)

    def close(self) -> None:
        self._inner.close()

    def _checked(self, record: AnyRecord) -> AnyRecord:
        if record.key is not self._key and record.key != self._key:
            raise ValueError(
                f"process_values of {self.context.node} may not change the key: "
                f"{self._key!r} became {record.key!r}"
            )
        return record

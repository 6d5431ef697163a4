"""The operations that keep nothing. Each is a Processor; for speed a task runs its `step`.

A step is a function of the record that was made for the nodes below: in it nothing is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ottla.engine.calls import takes_key, with_key
from ottla.engine.processors import Context, Deliver, Processor
from ottla.engine.records import AnyRecord, Record

AnyCall = Callable[..., Any]


class Stateless(Processor[Any, Any]):
    """`step` says what it does; `process` does it where somebody calls the node itself."""

    def init(self, context: Context) -> None:
        super().init(context)
        self._step = self.step(context.downstream)

    def process(self, record: AnyRecord) -> None:
        self._step(record)


class Filter(Stateless):
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


class WithKey(Stateless):
    """Drops what has no key: in front of a repartition, as in Kafka."""

    def step(self, downstream: Deliver) -> Deliver:
        def present(record: AnyRecord) -> None:
            if record.key is not None:
                downstream(record)

        return present


class Map(Stateless):
    def __init__(self, mapper: AnyCall) -> None:
        self._mapper = with_key(mapper)

    def step(self, downstream: Deliver) -> Deliver:
        mapper = self._mapper

        def mapped(record: AnyRecord) -> None:
            key, value = mapper(record.key, record.value)
            downstream(Record(key, value, record.timestamp, record.headers))

        return mapped


class MapValues(Stateless):
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


class SelectKey(Stateless):
    def __init__(self, selector: AnyCall) -> None:
        self._selector = with_key(selector)

    def step(self, downstream: Deliver) -> Deliver:
        selector = self._selector

        def selected(record: AnyRecord) -> None:
            key = selector(record.key, record.value)
            downstream(Record(key, record.value, record.timestamp, record.headers))

        return selected


class FlatMap(Stateless):
    def __init__(self, mapper: AnyCall) -> None:
        self._mapper = with_key(mapper)

    def step(self, downstream: Deliver) -> Deliver:
        mapper = self._mapper

        def mapped(record: AnyRecord) -> None:
            for key, value in mapper(record.key, record.value):
                downstream(Record(key, value, record.timestamp, record.headers))

        return mapped


class FlatMapValues(Stateless):
    def __init__(self, mapper: AnyCall) -> None:
        self._mapper = with_key(mapper)

    def step(self, downstream: Deliver) -> Deliver:
        mapper = self._mapper

        def mapped(record: AnyRecord) -> None:
            key, timestamp, headers = record.key, record.timestamp, record.headers
            for value in mapper(key, record.value):
                downstream(Record(key, value, timestamp, headers))

        return mapped


class Peek(Stateless):
    """`last`: foreach, which hands nothing on."""

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


class Pass(Stateless):
    """Hands on what it is given: where streams meet, and behind each branch."""

    def step(self, downstream: Deliver) -> Deliver:
        return downstream


class Branch(Processor[Any, Any]):
    """To the first child whose predicate holds; the last child may have none."""

    def __init__(self, predicates: Sequence[AnyCall], children: Sequence[str]) -> None:
        self._predicates = [with_key(each) for each in predicates]
        self._names = list(children)

    def process(self, record: AnyRecord) -> None:
        for predicate, name in zip(self._predicates, self._names, strict=False):
            if predicate(record.key, record.value):
                self.context.forward(record, name)
                return
        if len(self._names) > len(self._predicates):
            self.context.forward(record, self._names[-1])


class NewValue(Stateless):
    """From the changes of a table to a stream."""

    def step(self, downstream: Deliver) -> Deliver:
        def newest(record: AnyRecord) -> None:
            downstream(Record(record.key, record.value.new, record.timestamp, record.headers))

        return newest


class FixedKeys(Processor[Any, Any]):
    """Around a processor that may not change keys (`process_values`)."""

    def __init__(self, inner: Processor[Any, Any]) -> None:
        self._inner = inner
        self._key: Any = None

    def init(self, context: Context) -> None:
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

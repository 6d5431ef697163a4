"""One stream into several: each record goes to the first branch whose predicate holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.engine.calls import takes_key
from ottla.engine.stateless import Branch, Pass
from ottla.streams.building import checked_name

if TYPE_CHECKING:
    from ottla.streams.stream import Stream

K = TypeVar("K")
V = TypeVar("V")


class Branched(Generic[K, V]):
    """`default_branch` or `no_default_branch` ends it and gives the streams by their names.

    The names are Kafka's: the splitter's, followed by the branch's name or number (0: default).
    """

    def __init__(self, stream: Stream[K, V], name: str | None) -> None:
        self._stream = stream
        self._name = stream.builder.new_name("KSTREAM-BRANCH-", name)
        self._predicates: list[Callable[..., Any]] = []
        self._children: list[str] = []
        self._branches: dict[str, Stream[Any, Any]] = {}
        predicates, children = self._predicates, self._children
        stream.builder.processor(self._name, lambda: Branch(predicates, children), [stream.node])

    def branch(
        self,
        predicate: Callable[..., Any],
        chain: Callable[[Stream[K, V]], Any] | None = None,
        *,
        name: str | None = None,
    ) -> Branched[K, V]:
        """`chain(stream)` goes on with the branch here; what it returns is what is kept of it."""
        takes_key(predicate)
        self._predicates.append(predicate)
        self._add(name or str(len(self._predicates)), chain)
        return self

    def default_branch(
        self,
        chain: Callable[[Stream[K, V]], Any] | None = None,
        *,
        name: str | None = None,
    ) -> dict[str, Stream[K, V]]:
        """All that no branch took."""
        self._add(name or "0", chain)
        return self._branches

    def no_default_branch(self) -> dict[str, Stream[K, V]]:
        """What no branch took is dropped."""
        return self._branches

    def _add(self, suffix: str, chain: Callable[[Stream[K, V]], Any] | None) -> None:
        stream = self._stream
        name = checked_name(f"{self._name}{suffix}")
        stream.builder.new_name(name)  # Kafka takes a number here and does not use it
        stream.builder.processor(name, Pass, [self._name])
        self._children.append(name)
        branch = stream.at(name)
        kept = branch if chain is None else chain(branch)
        if kept is not None:
            self._branches[name] = kept

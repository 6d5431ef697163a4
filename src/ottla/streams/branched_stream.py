"""Splits a stream: each record goes to the first branch whose predicate holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.engine.arity import takes_key
from ottla.engine.stateless import KStreamBranch, KStreamPassThrough
from ottla.streams.internal_streams_builder import checked_name

if TYPE_CHECKING:
    from ottla.streams.stream import KStream

K = TypeVar("K")
V = TypeVar("V")


class BranchedKStream(Generic[K, V]):
    """`default_branch` or `no_default_branch` ends it and returns the streams by name.

    As in Kafka, a name is the splitter's, followed by the branch's name or number (0: default).
    """

    def __init__(self, stream: KStream[K, V], name: str | None) -> None:
        self._stream = stream
        self._name = stream.builder.new_name("KSTREAM-BRANCH-", name)
        self._predicates: list[Callable[..., Any]] = []
        self._children: list[str] = []
        self._branches: dict[str, KStream[Any, Any]] = {}
        predicates, children = self._predicates, self._children
        stream.builder.processor(
            self._name, lambda: KStreamBranch(predicates, children), [stream.node]
        )

    def branch(
        self,
        predicate: Callable[..., Any],
        chain: Callable[[KStream[K, V]], Any] | None = None,
        *,
        name: str | None = None,
    ) -> BranchedKStream[K, V]:
        """`chain(stream)` continues the branch; the result has what it returns."""
        takes_key(predicate)
        self._predicates.append(predicate)
        self._add(name or str(len(self._predicates)), chain)
        return self

    def default_branch(
        self,
        chain: Callable[[KStream[K, V]], Any] | None = None,
        *,
        name: str | None = None,
    ) -> dict[str, KStream[K, V]]:
        """A branch for the records that no other took."""
        self._add(name or "0", chain)
        return self._branches

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """Drops the records that no branch took."""
        return self._branches

    def _add(self, suffix: str, chain: Callable[[KStream[K, V]], Any] | None) -> None:
        stream = self._stream
        name = checked_name(f"{self._name}{suffix}")
        stream.builder.new_name(name)  # like Kafka, consumes a number without using it
        stream.builder.processor(name, KStreamPassThrough, [self._name])
        self._children.append(name)
        branch = stream.at(name)
        kept = branch if chain is None else chain(branch)
        if kept is not None:
            self._branches[name] = kept

"""Keys in a tree of znodes: what lies there, and the operations that change it.

A znode is a key when it has data, be it empty; without any (null) it is only the way to others, and
is made and removed as keys below it come and go. Kafka makes its paths in the same manner, so a
tree looks as it does there.

A key that comes into being where a bare node was has not version 0 but the next of that node's.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.cluster.store import ANY_VERSION, Check, Create, Delete, Entry, Put, Write, is_below

OPERATION_BYTES: Final = 128
"""What an operation takes at most beside its key and its value: header, chroot, ACL, flags."""
FOLDER_DEPTH: Final = 2
"""Folders down to here (/brokers/topics) stay when they are empty: brokers that come and go would
only get into each other's way."""


class Node(NamedTuple):
    """A znode; `value` is None where it is only on the way to others."""

    value: bytes | None
    version: int
    owner: int = 0
    """The session that it lasts as long as, or 0."""


class Tree:
    """All nodes by their keys, as far as they have been read."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._children: defaultdict[str, set[str]] = defaultdict(set)

    def entry(self, key: str) -> Entry | None:
        node = self.nodes.get(key)
        if node is None or node.value is None:
            return None
        return Entry(node.value, node.version)

    def entries(self, prefix: str) -> dict[str, Entry]:
        return {
            key: Entry(node.value, node.version)
            for key, node in self.nodes.items()
            if node.value is not None and is_below(key, prefix)
        }

    def put(self, key: str, node: Node) -> None:
        if key not in self.nodes:
            self._children[parent_of(key)].add(key)
        self.nodes[key] = node

    def remove(self, key: str) -> list[str]:
        """With all that is known below it; gives the keys that went."""
        if self.nodes.pop(key, None) is None:
            return []
        self._children[parent_of(key)].discard(key)
        gone = [key]
        for child in self._children.pop(key, ()):
            gone += self.remove(child)
        return gone

    def child_count(self, key: str) -> int:
        return len(self._children[key]) if key in self._children else 0


@dataclass(slots=True)
class Operation:
    """One step of a multi: `create`, `set`, `delete` or `check`. Version -1 is any."""

    kind: str
    key: str
    value: bytes | None = None
    version: int = -1
    ephemeral: bool = False

    @property
    def size(self) -> int:
        return OPERATION_BYTES + len(self.key) + len(self.value or b"")


class Plan:
    """The operations that carry writes out on a tree, with their paths made and cleared away."""

    def __init__(self, tree: Tree, debris: frozenset[str] = frozenset()) -> None:
        self.operations: list[Operation] = []
        self.places: list[int] = []
        """For each write, which of the operations does it."""
        self._tree = tree
        self._debris = debris
        self._changed: dict[str, Node | None] = {}
        self._children: Counter[str] = Counter()

    @property
    def size(self) -> int:
        return sum(each.size for each in self.operations)

    def add(self, write: Write) -> None:
        match write:
            case Create(key, value):
                self.create(key, value)
            case Put(key, value, version):
                self._set(key, value, version)
            case Delete(key, version):
                self._delete(key, version)
            case Check(key, version):
                self._do(Operation("check", key, version=self._version(key, version)))

    def create(self, key: str, value: bytes, *, ephemeral: bool = False) -> None:
        for parent in reversed(list(parents_of(key))):
            if self._node(parent) is None:
                self.operations.append(Operation("create", parent))
                self._note(parent, Node(None, 0))
        node = self._node(key)
        if node is not None and (node.value is None or key in self._debris):
            self._set(key, value, node.version)
            return
        self._do(Operation("create", key, value, ephemeral=ephemeral))
        self._note(key, Node(value, 0))

    def _set(self, key: str, value: bytes | None, version: int) -> None:
        version = self._version(key, version)
        self._do(Operation("set", key, value, version))
        self._note(key, Node(value, version + 1))

    def _delete(self, key: str, version: int) -> None:
        if self._child_count(key):
            self._set(key, None, version)
            return
        self._do(Operation("delete", key, version=self._version(key, version)))
        self._note(key, None)
        for parent in parents_of(key):
            node = self._node(parent)
            bare = node is not None and node.value is None
            if not bare or self._child_count(parent) or parent.count("/") <= FOLDER_DEPTH:
                break
            assert node is not None
            self.operations.append(Operation("delete", parent, version=node.version))
            self._note(parent, None)

    def _do(self, operation: Operation) -> None:
        self.places.append(len(self.operations))
        self.operations.append(operation)

    def _version(self, key: str, version: int) -> int:
        """Any version is the one we know: a node that lost its data meanwhile is no key."""
        node = self._node(key)
        return node.version if version == ANY_VERSION and node is not None else version

    def _node(self, key: str) -> Node | None:
        return self._changed[key] if key in self._changed else self._tree.nodes.get(key)

    def _note(self, key: str, node: Node | None) -> None:
        self._children[parent_of(key)] += (node is not None) - (self._node(key) is not None)
        self._changed[key] = node

    def _child_count(self, key: str) -> int:
        return self._tree.child_count(key) + self._children[key]


def debris_of(tree: Tree, writes: Iterable[Write]) -> frozenset[str]:
    """Keys below one that is not there, and that these writes create.

    A topic of very many partitions is too large for one request; where its making was broken off,
    states of partitions are left without their topic. Whoever makes the topic makes them anew.
    """
    created = {write.key for write in writes if isinstance(write, Create)}
    missing = {key for key in created if tree.entry(key) is None}
    return frozenset(
        key for key in created - missing if any(parent in missing for parent in parents_of(key))
    )


def done_versions(tree: Tree, writes: Sequence[Write]) -> list[int] | None:
    """The versions, if the tree is as these writes would have left it; None if it is not."""
    versions = []
    for write in writes:
        entry = tree.entry(write.key)
        match write:
            case Create(_, value):
                done = entry is not None and entry.value == value
            case Put(_, value, version):
                done = entry is not None and entry.value == value
                done = done and version in (ANY_VERSION, entry.version - 1 if entry else None)
            case Delete():
                done = entry is None
            case Check():
                done = True
        if not done:
            return None
        versions.append(entry.version if entry is not None else -1)
    return versions


def split_writes(writes: Sequence[Write]) -> tuple[list[int], list[int], list[int]]:
    """Which writes of a commit may go before, have to go together, and may go after the others.

    What is created below a key that is written too is not seen before that key says so, and what
    is deleted below one that is deleted is not seen any more.
    """
    written = {write.key for write in writes if isinstance(write, Create | Put)}
    deleted = {write.key for write in writes if isinstance(write, Delete)}
    before, together, after = [], [], []
    for place, write in enumerate(writes):
        if isinstance(write, Create) and any(key in written for key in parents_of(write.key)):
            before.append(place)
        elif isinstance(write, Delete) and any(key in deleted for key in parents_of(write.key)):
            after.append(place)
        else:
            together.append(place)
    return before, together, after


def parent_of(key: str) -> str:
    return key.rpartition("/")[0]


def parents_of(key: str) -> Iterator[str]:
    """From the nearest to the farthest, without the root."""
    while key := parent_of(key):
        yield key

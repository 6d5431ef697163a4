"""Keys as a tree of znodes, and the operations of a multi that change them.

A znode is a key if it has data, which may be empty. A znode without data (null) is only a parent of
others, and is created and deleted as keys below it come and go. Kafka creates its paths in the same
way, so the tree looks as it does there.

A key that is created at such a parent starts with the znode's next version, not with 0.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.cluster.store import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Put,
    VersionedValue,
    Write,
    is_below,
)

OPERATION_BYTES: Final = 128
"""The most that an operation takes beside its key and value: header, chroot, ACL, flags."""
FOLDER_DEPTH: Final = 2
"""Empty parents down to this depth (/brokers/topics) are kept, because brokers that create and
delete them at the same time would run into conflicts."""


class Znode(NamedTuple):
    """A znode; `value` is None if it is only a parent of others."""

    value: bytes | None
    version: int
    owner: int = 0
    """The session of an ephemeral znode, or 0."""


class ZnodeTree:
    """All znodes that have been read, by key."""

    def __init__(self) -> None:
        self.nodes: dict[str, Znode] = {}
        self._children: defaultdict[str, set[str]] = defaultdict(set)

    def entry(self, key: str) -> VersionedValue | None:
        node = self.nodes.get(key)
        if node is None or node.value is None:
            return None
        return VersionedValue(node.value, node.version)

    def entries(self, prefix: str) -> dict[str, VersionedValue]:
        return {
            key: VersionedValue(node.value, node.version)
            for key, node in self.nodes.items()
            if node.value is not None and is_below(key, prefix)
        }

    def put(self, key: str, node: Znode) -> None:
        if key not in self.nodes:
            self._children[parent_of(key)].add(key)
        self.nodes[key] = node

    def remove(self, key: str) -> list[str]:
        """Remove a znode with everything below it; returns the removed keys."""
        if self.nodes.pop(key, None) is None:
            return []
        self._children[parent_of(key)].discard(key)
        removed = [key]
        for child in self._children.pop(key, ()):
            removed += self.remove(child)
        return removed

    def child_count(self, key: str) -> int:
        return len(self._children[key]) if key in self._children else 0


@dataclass(slots=True)
class ZnodeOperation:
    """One operation of a multi: `create`, `set`, `delete` or `check`. Version -1 is any."""

    kind: str
    key: str
    value: bytes | None = None
    version: int = -1
    ephemeral: bool = False

    @property
    def size(self) -> int:
        return OPERATION_BYTES + len(self.key) + len(self.value or b"")


class MultiPlan:
    """The operations that execute writes on a tree, and create and delete parents as needed."""

    def __init__(self, tree: ZnodeTree, orphans: frozenset[str] = frozenset()) -> None:
        self.operations: list[ZnodeOperation] = []
        self.operation_indexes: list[int] = []
        """For each write, the index of its operation."""
        self._tree = tree
        self._orphans = orphans
        self._changed: dict[str, Znode | None] = {}
        self._children: Counter[str] = Counter()

    @property
    def size(self) -> int:
        return sum(operation.size for operation in self.operations)

    def add(self, write: Write) -> None:
        match write:
            case Create(key, value):
                self.create(key, value)
            case Put(key, value, version):
                self._set(key, value, version)
            case Delete(key, version):
                self._delete(key, version)
            case Check(key, version):
                self._add_operation(
                    ZnodeOperation("check", key, version=self._version(key, version))
                )

    def create(self, key: str, value: bytes, *, ephemeral: bool = False) -> None:
        for parent in reversed(list(parents_of(key))):
            if self._node(parent) is None:
                self.operations.append(ZnodeOperation("create", parent))
                self._plan_node(parent, Znode(None, 0))
        node = self._node(key)
        if node is not None and (node.value is None or key in self._orphans):
            self._set(key, value, node.version)
            return
        self._add_operation(ZnodeOperation("create", key, value, ephemeral=ephemeral))
        self._plan_node(key, Znode(value, 0))

    def _set(self, key: str, value: bytes | None, version: int) -> None:
        version = self._version(key, version)
        self._add_operation(ZnodeOperation("set", key, value, version))
        self._plan_node(key, Znode(value, version + 1))

    def _delete(self, key: str, version: int) -> None:
        if self._child_count(key):
            self._set(key, None, version)
            return
        self._add_operation(ZnodeOperation("delete", key, version=self._version(key, version)))
        self._plan_node(key, None)
        for parent in parents_of(key):
            node = self._node(parent)
            bare = node is not None and node.value is None
            if not bare or self._child_count(parent) or parent.count("/") <= FOLDER_DEPTH:
                break
            assert node is not None
            self.operations.append(ZnodeOperation("delete", parent, version=node.version))
            self._plan_node(parent, None)

    def _add_operation(self, operation: ZnodeOperation) -> None:
        self.operation_indexes.append(len(self.operations))
        self.operations.append(operation)

    def _version(self, key: str, version: int) -> int:
        """Replaces ANY_VERSION by the known one: without data the znode would not be a key."""
        node = self._node(key)
        return node.version if version == ANY_VERSION and node is not None else version

    def _node(self, key: str) -> Znode | None:
        return self._changed[key] if key in self._changed else self._tree.nodes.get(key)

    def _plan_node(self, key: str, node: Znode | None) -> None:
        self._children[parent_of(key)] += (node is not None) - (self._node(key) is not None)
        self._changed[key] = node

    def _child_count(self, key: str) -> int:
        return self._tree.child_count(key) + self._children[key]


def orphaned_keys(tree: ZnodeTree, writes: Iterable[Write]) -> frozenset[str]:
    """Existing keys that these writes create, below a parent that they create as well.

    A topic of very many partitions is too large for one request; if its creation was interrupted,
    partition states are left without a topic. The next creation of the topic replaces them.
    """
    created = {write.key for write in writes if isinstance(write, Create)}
    missing = {key for key in created if tree.entry(key) is None}
    return frozenset(
        key for key in created - missing if any(parent in missing for parent in parents_of(key))
    )


def versions_if_done(tree: ZnodeTree, writes: Sequence[Write]) -> list[int] | None:
    """The versions if the tree is as these writes would have left it, else None."""
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
    """The writes of a commit that may come before, must stay together, and may come after.

    A key that is created below another written key is not read before that one refers to it, and a
    key that is deleted below another deleted key is no longer read.
    """
    written = {write.key for write in writes if isinstance(write, Create | Put)}
    deleted = {write.key for write in writes if isinstance(write, Delete)}
    before, together, after = [], [], []
    for index, write in enumerate(writes):
        if isinstance(write, Create) and any(key in written for key in parents_of(write.key)):
            before.append(index)
        elif isinstance(write, Delete) and any(key in deleted for key in parents_of(write.key)):
            after.append(index)
        else:
            together.append(index)
    return before, together, after


def parent_of(key: str) -> str:
    return key.rpartition("/")[0]


def parents_of(key: str) -> Iterator[str]:
    """The parents of a key, nearest first, without the root."""
    while key := parent_of(key):
        yield key

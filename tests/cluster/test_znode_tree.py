"""Writes as operations on znodes, without a ZooKeeper."""

from __future__ import annotations

from ottla.cluster.store import ANY_VERSION, Check, Create, Delete, Put, VersionedValue, Write
from ottla.cluster.znode_tree import (
    MultiPlan,
    Znode,
    ZnodeOperation,
    ZnodeTree,
    orphaned_keys,
    split_writes,
    versions_if_done,
)


def tree_of(**nodes: bytes | None) -> ZnodeTree:
    """Names with __ for /: brokers__ids is /brokers/ids."""
    tree = ZnodeTree()
    for name, value in nodes.items():
        tree.put("/" + name.replace("__", "/"), Znode(value, 3))
    return tree


def planned(tree: ZnodeTree, *writes: Write) -> list[tuple[str, str, int]]:
    plan = MultiPlan(tree, orphaned_keys(tree, writes))
    for write in writes:
        plan.add(write)
    return [(operation.kind, operation.key, operation.version) for operation in plan.operations]


def test_the_parents_of_a_new_key_are_created_once() -> None:
    assert planned(tree_of(a=None), Create("/a/b/c", b""), Create("/a/b/d", b"")) == [
        ("create", "/a/b", -1),
        ("create", "/a/b/c", -1),
        ("create", "/a/b/d", -1),
    ]


def test_a_parent_without_data_becomes_a_key() -> None:
    tree = tree_of(a=None, a__b=b"")
    assert tree.entry("/a") is None
    assert planned(tree, Create("/a", b"x"), Put("/a", b"y", ANY_VERSION)) == [
        ("set", "/a", 3),
        ("set", "/a", 4),
    ]


def test_a_deleted_key_with_children_stays_as_a_parent_without_data() -> None:
    tree = tree_of(a=b"", a__b=b"")
    plan = MultiPlan(tree)
    plan.add(Delete("/a", 3))
    assert plan.operations == [ZnodeOperation("set", "/a", None, 3)]


def test_empty_parents_are_deleted() -> None:
    tree = tree_of(
        brokers=None,
        brokers__topics=None,
        brokers__topics__t=b"",
        brokers__topics__t__partitions=None,
        brokers__topics__t__partitions__0=None,
        brokers__topics__t__partitions__0__state=b"",
    )
    topic, state = "/brokers/topics/t", "/brokers/topics/t/partitions/0/state"
    assert planned(tree, Delete(state, 3), Delete(topic, 3)) == [
        ("delete", state, 3),
        ("delete", "/brokers/topics/t/partitions/0", 3),
        ("delete", "/brokers/topics/t/partitions", 3),
        ("delete", topic, 3),
    ]
    assert planned(tree, Delete(topic, 3), Delete(state, 3))[-1] == ("delete", topic, 4)


def test_a_commit_of_any_version_uses_the_known_one() -> None:
    tree = tree_of(a=b"")
    assert planned(tree, Check("/a", ANY_VERSION), Put("/a", b"", ANY_VERSION)) == [
        ("check", "/a", 3),
        ("set", "/a", 3),
    ]


def test_leftovers_of_an_interrupted_commit_are_replaced() -> None:
    tree = tree_of(t=None, t__p=None, t__p__0=b"old")
    writes = [Create("/t", b"topic"), Create("/t/p/0", b"new"), Create("/t/p/1", b"new")]
    assert orphaned_keys(tree, writes) == {"/t/p/0"}
    assert planned(tree, *writes) == [
        ("set", "/t", 3),
        ("set", "/t/p/0", 3),
        ("create", "/t/p/1", -1),
    ]
    assert orphaned_keys(tree_of(t=b"", t__p=None, t__p__0=b""), writes) == set()


def test_a_commit_can_be_recognised_as_done() -> None:
    tree = tree_of(a=b"new", b=b"other")
    check = Check("/b", 3)
    assert versions_if_done(tree, [check, Put("/a", b"new", 2), Delete("/c", 0)]) == [3, 3, -1]
    assert versions_if_done(tree, [check, Put("/a", b"new", 3)]) is None
    assert versions_if_done(tree, [Create("/b", b"mine")]) is None
    assert versions_if_done(tree, [Delete("/a", 3)]) is None


def test_invisible_writes_go_before_and_after_the_others() -> None:
    writes = [
        Check("/epoch", 1),
        Create("/t", b""),
        Create("/t/p/0", b""),
        Put("/g", b"", 1),
        Create("/g/p/7", b""),
        Delete("/d", 1),
        Delete("/d/p/0", 1),
        Create("/alone", b""),
    ]
    assert split_writes(writes) == ([2, 4], [0, 1, 3, 5, 7], [6])


def test_removing_a_znode_removes_everything_below_it() -> None:
    tree = tree_of(a=b"1", a__b=None, a__b__c=b"2", ab=b"3")
    assert set(tree.remove("/a")) == {"/a", "/a/b", "/a/b/c"}
    assert tree.remove("/a") == []
    assert tree.entries("/") == {"/ab": VersionedValue(b"3", 3)}

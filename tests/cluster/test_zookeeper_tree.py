"""Writes as operations on znodes, without a ZooKeeper."""

from __future__ import annotations

from ottla.cluster.store import ANY_VERSION, Check, Create, Delete, Entry, Put, Write
from ottla.cluster.zookeeper_tree import (
    Node,
    Operation,
    Plan,
    Tree,
    debris_of,
    done_versions,
    split_writes,
)


def tree_of(**nodes: bytes | None) -> Tree:
    """Names with __ for /: brokers__ids is /brokers/ids."""
    tree = Tree()
    for name, value in nodes.items():
        tree.put("/" + name.replace("__", "/"), Node(value, 3))
    return tree


def planned(tree: Tree, *writes: Write) -> list[tuple[str, str, int]]:
    plan = Plan(tree, debris_of(tree, writes))
    for write in writes:
        plan.add(write)
    return [(each.kind, each.key, each.version) for each in plan.operations]


def test_the_path_to_a_new_key_is_made_once() -> None:
    assert planned(tree_of(a=None), Create("/a/b/c", b""), Create("/a/b/d", b"")) == [
        ("create", "/a/b", -1),
        ("create", "/a/b/c", -1),
        ("create", "/a/b/d", -1),
    ]


def test_a_node_that_was_only_a_path_becomes_a_key() -> None:
    tree = tree_of(a=None, a__b=b"")
    assert tree.entry("/a") is None
    assert planned(tree, Create("/a", b"x"), Put("/a", b"y", ANY_VERSION)) == [
        ("set", "/a", 3),
        ("set", "/a", 4),
    ]


def test_a_key_with_others_below_it_stays_as_a_path() -> None:
    tree = tree_of(a=b"", a__b=b"")
    plan = Plan(tree)
    plan.add(Delete("/a", 3))
    assert plan.operations == [Operation("set", "/a", None, 3)]


def test_a_path_that_leads_nowhere_any_more_is_cleared_away() -> None:
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


def test_any_version_is_the_one_that_is_known() -> None:
    tree = tree_of(a=b"")
    assert planned(tree, Check("/a", ANY_VERSION), Put("/a", b"", ANY_VERSION)) == [
        ("check", "/a", 3),
        ("set", "/a", 3),
    ]


def test_what_a_broken_commit_left_is_made_anew() -> None:
    tree = tree_of(t=None, t__p=None, t__p__0=b"old")
    writes = [Create("/t", b"topic"), Create("/t/p/0", b"new"), Create("/t/p/1", b"new")]
    assert debris_of(tree, writes) == {"/t/p/0"}
    assert planned(tree, *writes) == [
        ("set", "/t", 3),
        ("set", "/t/p/0", 3),
        ("create", "/t/p/1", -1),
    ]
    assert debris_of(tree_of(t=b"", t__p=None, t__p__0=b""), writes) == set()


def test_whether_a_commit_was_done_can_be_seen() -> None:
    tree = tree_of(a=b"new", b=b"other")
    check = Check("/b", 3)
    assert done_versions(tree, [check, Put("/a", b"new", 2), Delete("/c", 0)]) == [3, 3, -1]
    assert done_versions(tree, [check, Put("/a", b"new", 3)]) is None
    assert done_versions(tree, [Create("/b", b"mine")]) is None
    assert done_versions(tree, [Delete("/a", 3)]) is None


def test_what_nobody_sees_goes_before_and_after() -> None:
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


def test_a_node_takes_all_that_is_below_it_with_it() -> None:
    tree = tree_of(a=b"1", a__b=None, a__b__c=b"2", ab=b"3")
    assert set(tree.remove("/a")) == {"/a", "/a/b", "/a/b/c"}
    assert tree.remove("/a") == []
    assert tree.entries("/") == {"/ab": Entry(b"3", 3)}

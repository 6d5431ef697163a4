"""Cuts a large request into portions and joins their responses: a table, and pure code.

Nearly every request of Kafka is a list of independent things: topics, with partitions in them. If
each portion goes through the same authorization and the same handler, the joined response is the
same as for the whole request, except that two things of the same name are compared with each other
only if they are in the same portion.

What is not in the table can't be cut: a session, a subscription, a set that is valid as a whole.
Such a request is limited in size, here or where it is handled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from ottla.wire.apis import APIS, ApiKey
from ottla.wire.connection import ProtocolError
from ottla.wire.fields import Message

# Things in a portion. The most expensive ones take 20 us each.
PORTION_COUNT: Final = 1000

# Elements of lists that can't be cut, in a request or in one thing of it. The largest request that
# anybody needs names the replicas of 10,000 partitions, each with its list.
WHOLE_COUNT_MAX: Final = 50_000
# A Fetch reads all of its partitions each time, which takes up to 7 us for each of them; altering
# a user's credentials takes 25 us.
WHOLE_COUNTS_MAX: Final[dict[int, int]] = {
    ApiKey.FETCH: 10_000,
    ApiKey.SHARE_FETCH: 15_000,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 25_000,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 20_000,
    ApiKey.SHARE_GROUP_HEARTBEAT: 20_000,
    ApiKey.STREAMS_GROUP_HEARTBEAT: 20_000,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 2_000,
}

# A missing list stands for everything, such as all offsets of a group.
EVERYTHING_WEIGHT: Final = 100

# This many elements weigh as much as one thing.
ELEMENTS_OF_A_THING: Final = 20


class Portions:
    """Where a request is cut: `request_path` names its lists, from the outermost to the innermost
    one, and `response_path` those of the response. `count` things make a portion."""

    __slots__ = ("count", "request_path", "response_path")

    def __init__(self, request_path: str, response_path: str, count: int = PORTION_COUNT) -> None:
        self.request_path = tuple(request_path.split("."))
        self.response_path = tuple(response_path.split("."))
        self.count = count

    def of(self, request: Message) -> Iterator[tuple[Message, int]]:
        """Requests with the things of this one, `count` at a time; with each, the depth to which
        its first thing continues the last one of the previous request, or 0 if nothing was cut."""
        name = self.request_path[0]
        for things, _, depth in _packed(getattr(request, name), self.request_path[1:], self.count):
            yield _with(request, name, things), depth

    def is_large(self, request: Message) -> bool:
        """True if it has more things than a portion."""
        return (
            _weight(getattr(request, self.request_path[0]), self.request_path[1:], self.count)
            > self.count
        )

    def join(self, response: Any, more: Any, depth: int) -> None:
        """Add the things of the response to the next portion, which came with this depth."""
        _join(response, more, self.response_path, depth)
        if hasattr(response, "throttle_time"):
            response.throttle_time = max(response.throttle_time, more.throttle_time)


_TOPICS: Final = Portions("topics.partitions", "topics.partitions")
_STATES: Final = Portions("topics.partitions", "results.partitions")
_GROUPS: Final = Portions("group_ids", "groups", 100)
_CONFIGS: Final = Portions("resources", "responses", 50)

# An API with two of them has another list in its newer versions.
PORTIONS: Final[dict[int, tuple[Portions, ...]]] = {
    ApiKey.LIST_OFFSETS: (_TOPICS,),
    ApiKey.METADATA: (Portions("topics", "topics"),),
    ApiKey.OFFSET_COMMIT: (_TOPICS,),
    ApiKey.OFFSET_FETCH: (
        Portions("groups.topics.partition_indexes", "groups.topics.partitions"),
        Portions("topics.partition_indexes", "topics.partitions"),
    ),
    ApiKey.FIND_COORDINATOR: (Portions("coordinator_keys", "coordinators"),),
    ApiKey.LEAVE_GROUP: (Portions("members", "members"),),
    ApiKey.DESCRIBE_GROUPS: (Portions("groups", "groups", 100),),
    ApiKey.CREATE_TOPICS: (Portions("topics", "topics", 10),),
    ApiKey.DELETE_TOPICS: (
        Portions("topics", "responses", 10),
        Portions("topic_names", "responses", 10),
    ),
    ApiKey.DELETE_RECORDS: (_TOPICS,),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (_TOPICS,),
    # All partitions of a transaction are added, or none.
    ApiKey.ADD_PARTITIONS_TO_TXN: (Portions("transactions", "results_by_transaction", 100),),
    ApiKey.WRITE_TXN_MARKERS: (
        Portions("markers.topics.partition_indexes", "markers.topics.partitions"),
    ),
    ApiKey.TXN_OFFSET_COMMIT: (_TOPICS,),
    ApiKey.CREATE_ACLS: (Portions("creations", "results", 100),),
    ApiKey.DELETE_ACLS: (Portions("filters", "filter_results", 100),),
    ApiKey.DESCRIBE_CONFIGS: (Portions("resources", "results", 50),),
    ApiKey.ALTER_CONFIGS: (_CONFIGS,),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (_CONFIGS,),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (Portions("dirs.topics.partitions", "results.partitions"),),
    ApiKey.CREATE_PARTITIONS: (Portions("topics", "results", 10),),
    ApiKey.DELETE_GROUPS: (Portions("groups_names", "results", 100),),
    ApiKey.ELECT_LEADERS: (
        Portions("topic_partitions.partitions", "replica_election_results.partition_result", 200),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (Portions("topics.partitions", "responses.partitions"),),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (
        Portions("topics.partition_indexes", "topics.partitions"),
    ),
    ApiKey.OFFSET_DELETE: (_TOPICS,),
    ApiKey.ALTER_CLIENT_QUOTAS: (Portions("entries", "entries", 100),),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (Portions("users", "results"),),
    ApiKey.DESCRIBE_PRODUCERS: (Portions("topics.partition_indexes", "topics.partitions"),),
    ApiKey.DESCRIBE_TRANSACTIONS: (Portions("transactional_ids", "transaction_states"),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (_GROUPS,),
    ApiKey.SHARE_GROUP_DESCRIBE: (_GROUPS,),
    ApiKey.STREAMS_GROUP_DESCRIBE: (_GROUPS,),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: (_STATES,),
    ApiKey.READ_SHARE_GROUP_STATE: (_STATES,),
    ApiKey.WRITE_SHARE_GROUP_STATE: (_STATES,),
    ApiKey.DELETE_SHARE_GROUP_STATE: (_STATES,),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (_STATES,),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (
        Portions("groups.topics.partitions", "groups.topics.partitions"),
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (Portions("topics.partitions", "responses.partitions"),),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (Portions("topics", "responses"),),
}


def portions_of(api_key: int, request: Message) -> Portions | None:
    """How to cut this request; None if it is small, or can't be cut."""
    for portions in PORTIONS.get(api_key, ()):
        if portions.is_large(request):
            return portions
    return None


def check_counts(api_key: int, request: Message) -> None:
    """ProtocolError if too much of it can't be cut. Slow, because it counts everything."""
    limit = WHOLE_COUNTS_MAX.get(api_key, WHOLE_COUNT_MAX)
    paths = {portions.request_path for portions in PORTIONS.get(api_key, ())}
    count = whole_count(request, paths)
    if count > limit:
        raise ProtocolError(
            f"{APIS[api_key].name} with {count} elements that belong together; {limit} are the most"
        )


def whole_count(thing: Any, paths: Collection[tuple[str, ...]] = ()) -> int:
    """The number of elements in the thing's lists that can't be cut. In a list that can be cut,
    only the largest element counts."""
    count = 0
    for name in getattr(thing, "__match_args__", ()):
        value = getattr(thing, name)
        if isinstance(value, Message):
            count += whole_count(value)
        elif isinstance(value, list) and value:
            below = [path[1:] for path in paths if path[:1] == (name,)]
            counts = (whole_count(element, below) for element in value)
            messages = isinstance(value[0], Message)
            if not below:
                count += len(value) + (sum(counts) if messages else 0)
            elif messages:
                count = max(count, max(counts))
    return count


def _packed(
    things: list[Any], below: tuple[str, ...], count: int
) -> Iterator[tuple[list[Any], int, int]]:
    """Pack the things into lists of at most `count`, nested ones included; with each list its
    weight, and how deep its first thing was cut."""
    packed: list[Any] = []
    weight = first_depth = 0
    for thing in things:
        for piece, size, depth in _pieces(thing, below, count):
            if packed and weight + size > count:
                yield packed, weight, first_depth
                packed, weight = [], 0
            if not packed:
                first_depth = depth
            packed.append(piece)
            weight += size
    if packed:
        yield packed, weight, first_depth


def _pieces(thing: Any, below: tuple[str, ...], count: int) -> Iterator[tuple[Any, int, int]]:
    """The thing itself, or several pieces of it; each with its weight, and how deep it was cut off
    the previous one."""
    inner = getattr(thing, below[0]) if below else None
    if not inner:
        everything = EVERYTHING_WEIGHT if below and inner is None else 0
        yield thing, 1 + everything + whole_count(thing) // ELEMENTS_OF_A_THING, 0
    elif (weight := _weight(inner, below[1:], count)) <= count:
        yield thing, 1 + weight, 0
    else:
        for index, (things, weight, depth) in enumerate(_packed(inner, below[1:], count)):
            yield _with(thing, below[0], things), 1 + weight, depth + 1 if index else 0


def _weight(things: list[Any] | None, below: tuple[str, ...], limit: int) -> int:
    """Counts the things and their contents; stops counting above the limit."""
    weight = len(things or ())
    if below:
        for thing in things or ():
            if weight > limit:
                break
            inner = getattr(thing, below[0])
            everything = EVERYTHING_WEIGHT if inner is None else 0
            weight += everything + _weight(inner, below[1:], limit)
    return weight


def _with(message: Any, name: str, value: list[Any]) -> Any:
    """A copy of the message with another value of one field."""
    fields = {field: getattr(message, field) for field in message.__match_args__}
    fields[name] = value
    return type(message)(**fields)


def _join(response: Any, more: Any, path: tuple[str, ...], depth: int) -> None:
    """A thing that was cut in two is the last of one list and the first of the next. Two things of
    the same name that were not cut remain two, because clients expect a result for each."""
    things: list[Any] = getattr(response, path[0])
    added: list[Any] = getattr(more, path[0])
    if depth and len(path) > 1 and things and added and _same(things[-1], added[0]):
        _join(things[-1], added[0], path[1:], depth - 1)
        added = added[1:]
    things += added


def _same(one: Any, other: Any) -> bool:
    """True if they differ in lists only."""
    for name in one.__match_args__:
        value = getattr(one, name)
        if not isinstance(value, list) and value != getattr(other, name):
            return False
    return True

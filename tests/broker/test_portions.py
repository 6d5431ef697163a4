"""Split requests and joined responses: nothing is lost, duplicated or reordered."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.dispatch import ROUTES
from ottla.broker.portions import PORTIONS, WHOLE_COUNT_MAX, Portions, check_counts, portions_of
from ottla.wire.apis import APIS, ApiKey
from ottla.wire.connection import ProtocolError
from ottla.wire.messages import (
    add_partitions_to_txn,
    alter_configs,
    list_offsets,
    offset_fetch,
    write_txn_markers,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)

SIZES = st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=6)


def test_every_cut_names_existing_lists() -> None:
    """Down to the innermost one, in the request as in the response."""
    for key, cuts in PORTIONS.items():
        assert key in ROUTES
        module = import_module(f"ottla.wire.messages.{APIS[key]._module}")
        for cut in cuts:
            for message, path in (
                (APIS[key].request, cut.request_path),
                (APIS[key].response, cut.response_path),
            ):
                kind: Any = message
                for name in path:
                    assert name in kind.__match_args__, f"{APIS[key].name}: {path}"
                    annotations = getattr(kind.__init__, "__annotations__", {})
                    inner = str(annotations.get(name, "")).removeprefix("list[").split("]")[0]
                    kind = getattr(module, inner, None) or AnyMessage


class AnyMessage:
    """A compiled class or a plain value, whose fields are not known here."""

    class __match_args__:  # noqa: N801
        def __contains__(self, name: str) -> bool:
            return True

    __match_args__ = __match_args__()  # type: ignore[assignment]


@given(SIZES, st.integers(1, 7))
def test_three_levels_are_reassembled_in_order(groups: list[list[int]], count: int) -> None:
    request = offset_fetch.OffsetFetchRequest(
        groups=[
            offset_fetch.OffsetFetchRequestGroup(
                f"g{number}",
                topics=[
                    offset_fetch.OffsetFetchRequestTopics(
                        f"t{place}", partition_indexes=[*range(n)]
                    )
                    for place, n in enumerate(sizes)
                ],
            )
            for number, sizes in enumerate(groups)
        ],
        require_stable=True,
    )
    cut = Portions("groups.topics.partition_indexes", "groups.topics.partitions", count)
    joined: Any = None
    for portion, depth in cut.of(request):
        assert portion.require_stable  # type: ignore[attr-defined]
        response = answered(portion)
        if joined is None:
            joined = response
        else:
            cut.join(joined, response, depth)
    assert (joined or answered(offset_fetch.OffsetFetchRequest())) == answered(request)


def answered(request: Any) -> offset_fetch.OffsetFetchResponse:
    return offset_fetch.OffsetFetchResponse(
        groups=[
            offset_fetch.OffsetFetchResponseGroup(
                group.group_id,
                [
                    offset_fetch.OffsetFetchResponseTopics(
                        topic.name,
                        partitions=[
                            offset_fetch.OffsetFetchResponsePartitions(index)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in group.topics
                ],
            )
            for group in request.groups
        ]
    )


def test_a_portion_respects_its_limit() -> None:
    partitions = [list_offsets.ListOffsetsPartition(index) for index in range(2500)]
    request = list_offsets.ListOffsetsRequest(
        topics=[list_offsets.ListOffsetsTopic("t", partitions)]
    )
    (cut,) = PORTIONS[ApiKey.LIST_OFFSETS]
    assert portions_of(ApiKey.LIST_OFFSETS, request) is cut
    sizes = [len(part.topics[0].partitions) for part, _ in cut.of(request)]  # type: ignore[attr-defined]
    assert sizes == [1000, 1000, 500]
    assert [depth for _, depth in cut.of(request)] == [0, 1, 1]
    request.topics[0].partitions = partitions[:999]
    assert portions_of(ApiKey.LIST_OFFSETS, request) is None


def test_a_request_split_into_portions_has_one_answer() -> None:
    """Unsplit parts stay separate, even with the same name; brokers are not added."""
    (cut,) = PORTIONS[ApiKey.METADATA]
    topics = [MetadataRequestTopic(name="t")] * 1500
    portions = [portion for portion, _ in cut.of(MetadataRequest(topics))]
    assert [len(portion.topics) for portion in portions] == [1000, 500]  # type: ignore[attr-defined]
    one, two = (
        MetadataResponse(brokers=[MetadataResponseBroker()], topics=[MetadataResponseTopic(name=n)])
        for n in "tt"
    )
    two.throttle_time = 7
    cut.join(one, two, 0)
    assert (len(one.brokers), len(one.topics), one.throttle_time) == (1, 2, 7)


def test_two_markers_of_one_producer_have_two_answers() -> None:
    """They lie on both sides of a border between portions, and neither is split."""
    (cut,) = PORTIONS[ApiKey.WRITE_TXN_MARKERS]
    topics = [write_txn_markers.WritableTxnMarkerTopic("t", [*range(600)])]
    markers = [
        write_txn_markers.WritableTxnMarker(producer_id=7, producer_epoch=epoch, topics=topics)
        for epoch in (1, 2)
    ]
    request = write_txn_markers.WriteTxnMarkersRequest(markers)
    joined = write_txn_markers.WriteTxnMarkersResponse([])
    depths = []
    for _, depth in cut.of(request):
        depths.append(depth)
        result = write_txn_markers.WritableTxnMarkerResult(7, [])
        cut.join(joined, write_txn_markers.WriteTxnMarkersResponse([result]), depth)
    assert depths == [0, 0]
    assert len(joined.markers) == 2


def test_the_partitions_of_a_transaction_are_never_cut() -> None:
    topic = add_partitions_to_txn.AddPartitionsToTxnTopic("t", [*range(5000)])
    old = add_partitions_to_txn.AddPartitionsToTxnRequest(v3_and_below_topics=[topic])
    assert portions_of(ApiKey.ADD_PARTITIONS_TO_TXN, old) is None
    whole = add_partitions_to_txn.AddPartitionsToTxnTransaction("x", 1, 0, False, [topic])
    new = add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[whole] * 101)
    cut = portions_of(ApiKey.ADD_PARTITIONS_TO_TXN, new)
    assert cut is not None
    for portion, _ in cut.of(new):
        assert portion.transactions == [whole]  # type: ignore[attr-defined]


def test_requests_that_cannot_be_cut_are_limited() -> None:
    configs = [alter_configs.AlterableConfig(str(n), "") for n in range(WHOLE_COUNT_MAX + 1)]
    large = alter_configs.AlterConfigsResource(2, "t", configs)
    with pytest.raises(ProtocolError, match="AlterConfigs with 50001 elements"):
        check_counts(ApiKey.ALTER_CONFIGS, alter_configs.AlterConfigsRequest([large]))
    some = [alter_configs.AlterConfigsResource(2, "t", configs[:10])] * 6000
    check_counts(
        ApiKey.ALTER_CONFIGS, alter_configs.AlterConfigsRequest(some)
    )  # each is a portion of its own
    partitions = [FetchPartition(partition=index) for index in range(10_000)]
    fetch = FetchRequest(topics=[FetchTopic("t", partitions=partitions)])
    with pytest.raises(ProtocolError, match="Fetch with 10001 elements"):
        check_counts(ApiKey.FETCH, fetch)

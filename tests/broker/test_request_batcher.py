"""RequestBatcher: one request to each broker at a time, with all waiting items."""

from __future__ import annotations

import asyncio

from ottla.broker.request_batcher import RequestBatcher
from ottla.errors import ErrorCode, KafkaError


class Post:
    """Records each batch by broker; a broker answers when the test says so."""

    def __init__(self, items_max: int = 1_000) -> None:
        self.carried: list[tuple[int, list[str]]] = []
        self.refused: list[tuple[list[str], ErrorCode]] = []
        self.answers: list[asyncio.Future[None]] = []
        self.batcher = RequestBatcher(self.send_request, self.fail_items, items_max=items_max)

    async def send_request(self, broker_id: int, items: list[str]) -> None:
        self.carried.append((broker_id, items))
        self.answers.append(asyncio.get_running_loop().create_future())
        await self.answers[-1]

    def fail_items(self, items: list[str], error: KafkaError) -> None:
        self.refused.append((items, error.code))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_items_that_arrive_during_a_request_go_into_the_next() -> None:
    async def play() -> None:
        post = Post()
        post.batcher.send(1, "a")
        post.batcher.send(1, "b")
        await settle()
        assert post.carried == [(1, ["a", "b"])]
        for item in "cd":
            post.batcher.send(1, item)
        post.batcher.send(2, "for another")
        await settle()
        assert post.carried[1:] == [(2, ["for another"])]  # no item waits for another broker
        post.answers[0].set_result(None)
        await settle()
        assert post.carried[2:] == [(1, ["c", "d"])]
        post.batcher.stop()
        await settle()

    asyncio.run(play())


def test_an_unreachable_broker_fails_the_batch_and_is_asked_again() -> None:
    async def play() -> None:
        post = Post()
        post.batcher.send(1, "a")
        await settle()
        post.answers[0].set_exception(KafkaError(ErrorCode.NETWORK_EXCEPTION))
        await settle()
        assert post.refused == [(["a"], ErrorCode.NETWORK_EXCEPTION)]
        post.batcher.send(1, "b")
        await settle()
        post.answers[1].set_exception(ValueError("a bug"))
        await settle()
        assert post.refused[1:] == [(["b"], ErrorCode.UNKNOWN_SERVER_ERROR)]
        post.batcher.send(1, "c")
        await settle()
        assert post.carried[2:] == [(1, ["c"])]
        post.batcher.stop()
        await settle()

    asyncio.run(play())


def test_a_request_has_a_limit() -> None:
    async def play() -> None:
        post = Post(items_max=2)
        for item in "abcde":
            post.batcher.send(1, item)
        for count in range(1, 4):
            await settle()
            assert len(post.carried) == count
            post.answers[-1].set_result(None)
        await settle()
        assert [items for _, items in post.carried] == [["a", "b"], ["c", "d"], ["e"]]

    asyncio.run(play())

"""Operations of several queues whose first requests are sent together."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import redis

import ackq
from ackq.core.io import together, together_async
from ackq.membership.shards import shard_names
from ackq.queue import inspection
from tests.facade import Portal
from tests.servers import Target


def nodes(target: Target) -> list[redis.Redis]:
    """Return a client of each primary."""
    control: Any = target.control
    primaries = control.get_primaries() if target.cluster else ()
    return [control.get_redis_connection(primary) for primary in primaries] or [control]


@pytest.fixture
def stats(flavour: str, portal: Portal) -> Callable[[list[Any]], list[Any]]:
    """Count the messages of queues together."""

    def run(queues: list[Any]) -> list[Any]:
        if flavour == "sync":
            return together.run_all([queue.beginning(inspection.stats) for queue in queues])

        async def all_of() -> list[Any]:
            wanted = [queue.beginning(inspection.stats) for queue in queues]
            return await together_async.run_all(wanted)

        found: list[Any] = portal.call(all_of)
        return found

    return run


@pytest.fixture
def queues(make_client: Callable[[], Any], flavour: str, portal: Portal, token: str) -> Any:
    """Return queues that share connections, spread over the nodes of a cluster."""
    names = shard_names(token, 120)
    client = make_client()
    first: Any = (ackq.Queue if flavour == "sync" else ackq.AsyncQueue)(client, names[0])
    yield [first, *map(first.beside, names[1:])]
    if flavour == "sync":
        first.close()
    else:
        portal.call(first.aclose)


def test_each_ends_as_if_it_had_run_alone(
    queues: list[Any], stats: Any, target: Target, token: str
) -> None:
    for number in range(0, 120, 7):
        target.control.lpush(shard_names(token, 120)[number], *range(number + 1))
    target.control.set(shard_names(token, 120)[9], "no list")
    for _ in range(2):
        found = stats(queues)
        assert isinstance(found.pop(9), ackq.KeyTypeError)
        assert [each.ready for each in found if each.ready] == [*range(1, 121, 7)]
        for node in nodes(target):
            node.script_flush()


def test_what_goes_to_one_node_is_one_round_trip(
    queues: list[Any], stats: Any, target: Target
) -> None:
    stats(queues)
    for _ in range(2):
        before = [node.info("stats")["total_reads_processed"] for node in nodes(target)]
        assert len(stats(queues)) == 120
        after = [node.info("stats")["total_reads_processed"] for node in nodes(target)]
        # 120 requests of 200 bytes; a server reads up to 16 KiB at once.
        assert all(b - a <= 12 for a, b in zip(before, after, strict=True))


def test_at_most_a_hundred_requests_are_sent_at_once(
    queues: list[Any], stats: Any, flavour: str, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    if target.cluster:
        pytest.skip("120 queues are fewer for each node")
    module: Any = together if flavour == "sync" else together_async
    stats(queues)
    sent: list[int] = []
    exchange = module._exchange_all if flavour == "sync" else module._exchange

    def counted_groups(groups: Any) -> Any:
        sent.extend(len(group) for _, group in groups)
        return exchange(groups)

    def counted_requests(node: Any, requests: Any) -> Any:
        sent.append(len(requests))
        return exchange(node, requests)

    if flavour == "sync":
        monkeypatch.setattr(module, "_exchange_all", counted_groups)
    else:
        monkeypatch.setattr(module, "_exchange", counted_requests)
    stats(queues)
    assert sorted(sent) == [20, 100]


def test_a_node_that_redirects_is_followed(target: Target, token: str) -> None:
    if not target.cluster:
        pytest.skip("one node")
    node = nodes(target)[0].connection_pool.connection_kwargs
    names = shard_names(token, 12)
    first = ackq.Queue(redis.Redis(node["host"], node["port"]), names[0])
    with first:
        for number, name in enumerate(names):
            target.control.lpush(name, *range(number + 1))
        queues = [first, *map(first.beside, names[1:])]
        for _ in range(2):
            found = together.run_all([queue.beginning(inspection.stats) for queue in queues])
            counts = [each.ready for each in found if not isinstance(each, Exception)]
            assert counts == list(range(1, 13))


@pytest.mark.parametrize("error", [redis.ConnectionError(), OSError(), ValueError()])
def test_an_operation_without_a_node_is_left_to_its_driver(error: Exception) -> None:
    def fail(key: None) -> None:
        raise error

    async def fail_later(key: None) -> None:
        raise error

    blocking: Any = SimpleNamespace(route=SimpleNamespace(connections=fail))
    later: Any = SimpleNamespace(route=SimpleNamespace(connections=fail_later))
    if isinstance(error, ValueError):  # a mistake is none of these
        with pytest.raises(ValueError):  # noqa: PT011
            together._node_of(blocking)
        with pytest.raises(ValueError):  # noqa: PT011
            asyncio.run(together_async._node_of(later))
    else:
        assert together._node_of(blocking) is None
        assert asyncio.run(together_async._node_of(later)) is None
